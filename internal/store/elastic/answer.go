package elastic

import (
	"bytes"
	"encoding/json"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/jsonscan"
)

// searchAnswer is what we read of an answer to a search. It is read by hand,
// since it holds whole pages of messages.
type searchAnswer struct {
	PIT      string
	TimedOut bool
	Shards   shards
	Total    int64 // documents found, where that was asked for
	Hits     []hit
}

type shards struct {
	Total  int `json:"total"`
	Failed int `json:"failed"`
}

// hit is a document that was found. Sort is kept as it came: its numbers go
// beyond what a float64 holds.
type hit struct {
	Index    string
	ID       string
	Sort     []json.RawMessage
	BodySize int64           // where that field was asked for
	Source   json.RawMessage // as rawSource reads it
	Event    *schemas.Event  // as eventSource reads it
	Err      error           // why there is no event
}

// source reads the source of a hit.
type source func(*jsonscan.Reader, *hit)

func rawSource(r *jsonscan.Reader, h *hit) { h.Source = bytes.Clone(r.Raw()) }

func eventSource(r *jsonscan.Reader, h *hit) {
	h.Event = new(schemas.Event)
	h.Err = r.Part(func(r *jsonscan.Reader) { *h.Event = schemas.ReadDocument(r) })
}

// readAnswer keeps no part of the text.
func readAnswer(text []byte, source source) (searchAnswer, error) {
	var a searchAnswer
	r := jsonscan.NewOfMany(text)
	r.Object(func(name []byte) {
		switch string(name) {
		case "pit_id":
			a.PIT = r.Text()
		case "timed_out":
			a.TimedOut = r.Bool()
		case "_shards":
			a.Shards = readShards(r)
		case "hits":
			a.Total, a.Hits = readHits(r, source)
		}
	})
	return a, r.End()
}

func readShards(r *jsonscan.Reader) (s shards) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "total":
			s.Total = int(r.Int(64))
		case "failed":
			s.Failed = int(r.Int(64))
		}
	})
	return s
}

func readHits(r *jsonscan.Reader, source source) (total int64, hits []hit) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "total":
			total = readTotal(r)
		case "hits":
			r.Array(func() { hits = append(hits, readHit(r, source)) })
		}
	})
	return total, hits
}

func readTotal(r *jsonscan.Reader) (total int64) {
	r.Object(func(name []byte) {
		if string(name) == "value" {
			total = r.Int(64)
		}
	})
	return total
}

const mostSorted = 3 // values that documents are sorted by

func readHit(r *jsonscan.Reader, source source) (h hit) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "_index":
			h.Index = r.Text()
		case "_id":
			h.ID = r.Text()
		case "_source":
			source(r, &h)
		case "sort":
			h.Sort = make([]json.RawMessage, 0, mostSorted)
			r.Array(func() { h.Sort = append(h.Sort, bytes.Clone(r.Raw())) })
		case "fields":
			h.BodySize = readBodySize(r)
		}
	})
	return h
}

// readBodySize reads the one field that we ask for, a list of values.
func readBodySize(r *jsonscan.Reader) (size int64) {
	r.Object(func(name []byte) {
		if string(name) == bodySize {
			r.Array(func() { size = r.Int(64) })
		}
	})
	return size
}
