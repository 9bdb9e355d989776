package elastic

import (
	"encoding/json"

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
// beyond what a float64 holds. Source and Sort are parts of the answer.
type hit struct {
	Index  string
	ID     string
	Source json.RawMessage
	Sort   []json.RawMessage
	Fields map[string][]int64
}

func readAnswer(text []byte) (searchAnswer, error) {
	var a searchAnswer
	r := jsonscan.New(text)
	r.Object(func(name []byte) {
		switch string(name) {
		case "pit_id":
			a.PIT = r.Text()
		case "timed_out":
			a.TimedOut = r.Bool()
		case "_shards":
			a.Shards = readShards(r)
		case "hits":
			a.Total, a.Hits = readHits(r)
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

func readHits(r *jsonscan.Reader) (total int64, hits []hit) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "total":
			total = readTotal(r)
		case "hits":
			r.Array(func() { hits = append(hits, readHit(r)) })
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

func readHit(r *jsonscan.Reader) (h hit) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "_index":
			h.Index = r.Text()
		case "_id":
			h.ID = r.Text()
		case "_source":
			h.Source = r.Raw()
		case "sort":
			r.Array(func() { h.Sort = append(h.Sort, r.Raw()) })
		case "fields":
			h.Fields = readFields(r)
		}
	})
	return h
}

// readFields reads fields that are whole numbers, the only ones we ask for.
func readFields(r *jsonscan.Reader) map[string][]int64 {
	fields := map[string][]int64{}
	r.Object(func(name []byte) {
		field := string(name)
		r.Array(func() { fields[field] = append(fields[field], r.Int(64)) })
	})
	return fields
}
