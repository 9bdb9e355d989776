package elastic

import (
	"bytes"
	"encoding/json"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/jsonscan"
)

// searchResponse has the fields in use. A jsonscan.Reader parses it, since it contains
// whole pages of messages.
type searchResponse struct {
	answered
	PIT   string
	Total int64 // documents found, with track_total_hits
	Hits  []hit
}

// answered says whether a response has the whole result.
type answered struct {
	TimedOut bool
	Shards   shards
}

// read reads a member of the response.
func (a *answered) read(r *jsonscan.Reader, name []byte) {
	switch string(name) {
	case "timed_out":
		a.TimedOut = r.Bool()
	case "_shards":
		a.Shards = readShards(r)
	}
}

type shards struct {
	Total  int `json:"total"`
	Failed int `json:"failed"`
}

// hit is a found document. Sort is raw JSON: its numbers can exceed a float64.
type hit struct {
	Index    string
	ID       string
	Sort     []json.RawMessage
	BodySize int64           // with docvalue_fields
	Source   json.RawMessage // with readRawSource
	Event    *schemas.Event  // with readEvent
	Err      error           // why there is no event
}

// sourceReader reads the source of a hit.
type sourceReader func(*jsonscan.Reader, *hit)

func readRawSource(r *jsonscan.Reader, h *hit) { h.Source = bytes.Clone(r.Raw()) }

func readEvent(r *jsonscan.Reader, h *hit) {
	h.Event = new(schemas.Event)
	h.Err = r.Part(h.Event.ReadDocument)
}

// parseSearch returns copies: the text can be reused.
func parseSearch(text []byte, read sourceReader) (searchResponse, error) {
	var a searchResponse
	r := jsonscan.NewOfMany(text)
	r.Object(func(name []byte) {
		switch string(name) {
		case "pit_id":
			a.PIT = r.Text()
		case "hits":
			a.Total, a.Hits = readHits(r, read)
		default:
			a.read(r, name)
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

func readHits(r *jsonscan.Reader, read sourceReader) (total int64, hits []hit) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "total":
			total = readTotal(r)
		case "hits":
			r.Array(func() { hits = append(hits, readHit(r, read)) })
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

const maxSortValues = 3 // of a search

func readHit(r *jsonscan.Reader, read sourceReader) (h hit) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "_index":
			h.Index = r.Text()
		case "_id":
			h.ID = r.Text()
		case "_source":
			read(r, &h)
		case "sort":
			h.Sort = make([]json.RawMessage, 0, maxSortValues)
			r.Array(func() { h.Sort = append(h.Sort, bytes.Clone(r.Raw())) })
		case "fields":
			h.BodySize = readBodySize(r)
		}
	})
	return h
}

// readBodySize reads the one field of docvalue_fields, a list of values.
func readBodySize(r *jsonscan.Reader) (size int64) {
	r.Object(func(name []byte) {
		if string(name) == bodySizeField {
			r.Array(func() { size = r.Int(64) })
		}
	})
	return size
}
