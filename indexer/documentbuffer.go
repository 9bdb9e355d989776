package indexer

import (
	"sync"

	"github.com/watershipmq/watership/schemas"
)

// documentBlock is the memory of many documents.
type documentBlock [128 << 10]byte

// documentBuffer has the JSON of documents, in blocks of a pool. So documents never move,
// and no batch reserves memory for more documents than it has.
type documentBuffer struct {
	pool   *sync.Pool // of *documentBlock
	blocks []*documentBlock
	free   []byte // the rest of the last block: length 0
	bytes  int    // of all documents
}

// append encodes an event. The result stays valid until reset.
func (b *documentBuffer) append(format schemas.DocumentFormat, event *schemas.Event) []byte {
	document := format.Append(b.room(expectedSize(event)), *event)
	if cap(document) == cap(b.free) {
		b.free = document[len(document):]
	} // else the document has its own memory
	b.bytes += len(document)
	return document[:len(document):len(document)]
}

// expectedSize is enough for most documents: a JSON body is in them twice.
func expectedSize(event *schemas.Event) int {
	const fields = 3 << 10 // bytes
	return fields + 2*len(event.Envelope.Body) + len(event.Envelope.Body)/4
}

// room returns an empty slice for a document: of the last block, of a new one, or by itself.
func (b *documentBuffer) room(size int) []byte {
	if size > len(documentBlock{}) {
		return make([]byte, 0, size)
	}
	if size > cap(b.free) {
		block, ok := b.pool.Get().(*documentBlock)
		if !ok {
			block = new(documentBlock)
		}
		b.blocks, b.free = append(b.blocks, block), block[:0]
	}
	return b.free
}

// reset returns the blocks to the pool.
func (b *documentBuffer) reset() {
	for _, block := range b.blocks {
		b.pool.Put(block)
	}
	clear(b.blocks)
	*b = documentBuffer{pool: b.pool, blocks: b.blocks[:0]}
}
