package projection_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/watershipmq/watership/internal/database/databasetest"
	"github.com/watershipmq/watership/projection"
	"github.com/watershipmq/watership/schemas"
)

// The database commits a batch, and the answer does not arrive: each event is handled once.
func TestALostAnswerToACommit(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 10)
		c := &connector{inner: db.DB.Driver(), address: db.Address}
		losing := sql.OpenDB(c)
		t.Cleanup(func() { _ = losing.Close() })
		cfg := o.config(losing)
		cfg.Handle = func(ctx context.Context, tx *sql.Tx, tables projection.Tables, event schemas.Event) error {
			c.loses.CompareAndSwap(never, next)
			return addOrder(ctx, tx, tables, event)
		}
		start(t, newProjection(t, cfg).Run)
		o.await(t, db.DB)
		if c.loses.Load() != lost {
			t.Error("no answer was lost")
		}
	})
}

// connector opens connections that lose the answer to one commit.
type connector struct {
	inner   driver.Driver
	address string
	loses   atomic.Int32
}

// The states of connector.loses.
const (
	never int32 = iota
	next
	lost
)

func (c *connector) Driver() driver.Driver { return c.inner }

func (c *connector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.inner.Open(c.address)
	return connection{conn, c}, err
}

type connection struct {
	driver.Conn
	of *connector
}

func (c connection) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, options)
	return transaction{tx, c.of}, err
}

type transaction struct {
	driver.Tx
	of *connector
}

func (t transaction) Commit() error {
	err := t.Tx.Commit()
	if err == nil && t.of.loses.CompareAndSwap(next, lost) {
		err = errors.New("the connection is lost")
	}
	return err
}
