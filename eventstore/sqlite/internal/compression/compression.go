// Package compression compresses short texts that resemble each other one by one, by zstd
// with a dictionary of earlier ones: alone, each repeats little.
package compression

import (
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// The first byte of a compressed text says how to read it.
const (
	plain  = 0 // as it is
	framed = 1 // a zstd frame without the four bytes that every frame begins with
)

// magic begins every zstd frame.
var magic = [...]byte{0x28, 0xb5, 0x2f, 0xfd}

// dictionaryID is in each frame, and takes one byte.
const dictionaryID = 1

// Compressor compresses texts with one dictionary.
type Compressor struct{ encoder *zstd.Encoder }

// NewCompressor returns a compressor. The dictionary is any text, or nil.
func NewCompressor(dictionary []byte) (*Compressor, error) {
	options := []zstd.EOption{zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithEncoderLevel(zstd.SpeedFastest)}
	if dictionary != nil {
		options = append(options, zstd.WithEncoderDictRaw(dictionaryID, dictionary))
	}
	encoder, err := zstd.NewWriter(nil, options...)
	return &Compressor{encoder}, err
}

// Compress returns the compressed text.
func (c *Compressor) Compress(text []byte) []byte {
	frame := c.encoder.EncodeAll(text, make([]byte, 0, len(text)/2+64))
	if len(frame)-len(magic) >= len(text) {
		return append([]byte{plain}, text...)
	}
	frame[len(magic)-1] = framed
	return frame[len(magic)-1:]
}

// Decompressor decompresses texts that were compressed with one dictionary, or without.
type Decompressor struct{ decoder *zstd.Decoder }

// NewDecompressor returns a decompressor.
func NewDecompressor(dictionary []byte) (*Decompressor, error) {
	options := []zstd.DOption{zstd.WithDecoderConcurrency(0)}
	if dictionary != nil {
		options = append(options, zstd.WithDecoderDictRaw(dictionaryID, dictionary))
	}
	decoder, err := zstd.NewReader(nil, options...)
	return &Decompressor{decoder}, err
}

// Decompress returns the text. It is safe for concurrent use.
func (d *Decompressor) Decompress(compressed []byte) ([]byte, error) {
	switch {
	case len(compressed) == 0:
		return nil, nil
	case compressed[0] == plain:
		return compressed[1:], nil
	case compressed[0] != framed:
		return nil, fmt.Errorf("decompressing a text: unknown form %d", compressed[0])
	}
	text, err := d.decoder.DecodeAll(slices.Concat(magic[:], compressed[1:]), nil)
	if err != nil {
		return nil, fmt.Errorf("decompressing a text: %w", err)
	}
	return text, nil
}
