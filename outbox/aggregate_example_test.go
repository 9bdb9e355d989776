package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/watershipmq/watership/outbox"
	"github.com/watershipmq/watership/schemas"
)

// account is the state of an account, computed from its events.
type account struct {
	isOpen  bool
	balance int
}

func (a *account) apply(event schemas.Envelope) {
	var amount int
	_, _ = fmt.Sscan(string(event.Body), &amount) // of no opened event
	switch event.Properties.Type {
	case "opened":
		a.isOpen = true
	case "deposited":
		a.balance += amount
	case "withdrawn":
		a.balance -= amount
	}
}

// withdraw decides: it returns the event of a withdrawal, or why there is none.
func (a *account) withdraw(amount int) (schemas.Envelope, error) {
	if !a.isOpen || a.balance < amount {
		return schemas.Envelope{}, fmt.Errorf("cannot withdraw %d of %d", amount, a.balance)
	}
	return accountEvent("withdrawn", amount), nil
}

func accountEvent(kind string, amount int) schemas.Envelope {
	return schemas.Envelope{Exchange: "bank", RoutingKey: "account." + kind, Body: fmt.Append(nil, amount), Properties: schemas.Properties{Type: kind}}
}

// change loads an account, decides, and appends the event. If another transaction was faster, it does so again.
func change(ctx context.Context, db *sql.DB, stream string, decide func(*account) (schemas.Envelope, error)) error {
	for {
		err := changeOnce(ctx, db, stream, decide)
		if !errors.Is(err, outbox.ErrConflict) {
			return err
		}
	}
}

func changeOnce(ctx context.Context, db *sql.DB, stream string, decide func(*account) (schemas.Envelope, error)) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	events, version, err := outbox.Load(ctx, tx, stream)
	if err != nil {
		return err
	}
	var a account
	for _, event := range events {
		a.apply(event)
	}
	event, err := decide(&a)
	if err != nil {
		return err
	}
	if err := outbox.Append(ctx, tx, stream, version, event); err != nil {
		return err
	}
	return tx.Commit()
}

// An aggregate whose commands decide on its events.
func ExampleAppend() {
	ctx := context.Background()
	db, remove := openDatabase()
	defer remove()
	if err := outbox.Install(ctx, db); err != nil {
		log.Fatal(err)
	}
	for _, event := range []schemas.Envelope{accountEvent("opened", 0), accountEvent("deposited", 30)} {
		if err := change(ctx, db, "account-7", func(*account) (schemas.Envelope, error) { return event, nil }); err != nil {
			log.Fatal(err)
		}
	}
	for range 2 {
		fmt.Println(change(ctx, db, "account-7", func(a *account) (schemas.Envelope, error) { return a.withdraw(20) }))
	}
	// Output:
	// <nil>
	// cannot withdraw 20 of 10
}
