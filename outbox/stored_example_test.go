package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/watershipmq/watership/outbox"
	"github.com/watershipmq/watership/schemas"
)

// stored is an event of another event store.
type stored struct {
	stream, id, kind string
	version          int64 // 1 for the first of the stream
	time             time.Time
	data             []byte
}

// fromKurrentDB reads an entry of its HTTP API (Accept: application/vnd.eventstore.atom+json), whose numbers begin with 0.
func fromKurrentDB(entry []byte) (stored, error) {
	var e struct {
		ID      string    `json:"id"`
		Updated time.Time `json:"updated"`
		Content struct {
			Stream string          `json:"eventStreamId"`
			Number int64           `json:"eventNumber"`
			Type   string          `json:"eventType"`
			Data   json.RawMessage `json:"data"`
		} `json:"content"`
	}
	err := json.Unmarshal(entry, &e)
	c := e.Content
	return stored{c.Stream, e.ID, c.Type, c.Number + 1, e.Updated, c.Data}, err
}

// fromMarten reads a row as SELECT row_to_json(e) FROM mt_events e ORDER BY seq_id has it.
func fromMarten(row []byte) (stored, error) {
	var e struct {
		Stream  string          `json:"stream_id"`
		ID      string          `json:"id"`
		Type    string          `json:"type"`
		Version int64           `json:"version"`
		Time    time.Time       `json:"timestamp"`
		Data    json.RawMessage `json:"data"`
	}
	err := json.Unmarshal(row, &e)
	return stored{e.Stream, e.ID, e.Type, e.Version, e.Time, e.Data}, err
}

// appendStored appends an event unless an earlier run has done so. It fails if events before it are missing.
func appendStored(ctx context.Context, db *sql.DB, e stored) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	envelope := schemas.Envelope{
		Exchange: "shop", RoutingKey: "order." + e.kind, Body: e.data,
		Properties: schemas.Properties{MessageID: e.id, Type: e.kind, Timestamp: e.time, ContentType: "application/json"},
	}
	err = outbox.Append(ctx, tx, e.stream, e.version-1, envelope)
	if errors.Is(err, outbox.ErrConflict) {
		_ = tx.Rollback()
		return checkStored(ctx, db, e)
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

func checkStored(ctx context.Context, db *sql.DB, e stored) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	_, version, err := outbox.Load(ctx, tx, e.stream)
	if err == nil && version < e.version {
		return fmt.Errorf("stream %s has version %d, and version %d follows", e.stream, version, e.version)
	}
	return err
}

// Events of KurrentDB and of Marten become streams with the same versions.
func ExampleAppend_storedElsewhere() {
	ctx := context.Background()
	db, remove := openDatabase()
	defer remove()
	if err := outbox.Install(ctx, db); err != nil {
		log.Fatal(err)
	}
	first, err := fromKurrentDB([]byte(`{"title": "0@order-42", "id": "http://127.0.0.1:2113/streams/order-42/0", "updated": "2026-05-04T03:00:00.5242492Z",
		"author": {"name": "EventStore"}, "summary": "created", "content": {"eventStreamId": "order-42", "eventNumber": 0, "eventType": "created",
		"data": {"order": 42}, "metadata": ""}, "links": []}`))
	if err != nil {
		log.Fatal(err)
	}
	second, err := fromMarten([]byte(`{"seq_id": 7, "id": "0198c0de-0000-7000-8000-000000000007", "stream_id": "order-42", "version": 2,
		"data": {"order": 42}, "type": "paid", "timestamp": "2026-05-04T03:00:02.25+00:00", "tenant_id": "*DEFAULT*", "mt_dotnet_type": "Shop.Paid, Shop", "is_archived": false}`))
	if err != nil {
		log.Fatal(err)
	}
	gap := second
	gap.version = 4
	for _, event := range []stored{first, second, first, second, gap} { // as by a run that is repeated
		fmt.Println(appendStored(ctx, db, event))
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	events, version, err := outbox.Load(ctx, tx, "order-42")
	for _, event := range events {
		fmt.Println(event.Headers["stream-version"], event.RoutingKey, string(event.Body))
	}
	fmt.Println(version, err)
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// <nil>
	// stream order-42 has version 2, and version 4 follows
	// 1 order.created {"order": 42}
	// 2 order.paid {"order": 42}
	// 2 <nil>
}
