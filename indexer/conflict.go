package indexer

import (
	"context"

	"github.com/watershipmq/watership/schemas"
)

// conflict is an item whose id is in the store already.
type conflict struct {
	*item
	stored schemas.Stored
}

// seconds tells our own earlier writes from second messages. Only an id that
// follows from the content can belong to another message, and then the stored
// sequence is another's. A redelivery is taken for the message that is stored;
// in any other doubt there are two events rather than one too few.
func (x *Indexer) seconds(ctx context.Context, conflicts []conflict) ([]*item, error) {
	var doubtful []conflict
	var stored []schemas.Stored
	for _, c := range conflicts {
		if c.event.IDFromContent() && !c.redelivered {
			doubtful = append(doubtful, c)
			stored = append(stored, c.stored)
		}
	}
	if len(doubtful) == 0 {
		return nil, nil
	}
	var sequences map[schemas.Stored]int64
	err := x.patience().insist(ctx, func() (err error) {
		sequences, err = x.cfg.Store.Sequences(ctx, stored)
		return err
	})
	var seconds []*item
	for _, c := range doubtful {
		if sequences[c.stored] != c.event.Sequence {
			x.replace(c.item, c.event.Second())
			seconds = append(seconds, c.item)
		}
	}
	return seconds, err
}
