package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// stream is the prefix of the data streams of Watership's default configuration.
const stream = "watership-messages"

// event is a document of the store.
type event struct {
	id       string
	message  string
	action   string
	sequence int64
	attempt  int
	ingested time.Time
}

// record reads all events of a run from the store.
func record(ctx context.Context, run string) (all []event, err error) {
	if err := store(ctx, http.MethodPost, stream+"-*/_refresh", "", nil); err != nil {
		return nil, err
	}
	const page = 5000
	var after json.RawMessage
	for {
		query := fmt.Sprintf(`{"size":%d,"query":{"term":{"headers.run":%q}},"sort":[{"event.id":"asc"},{"_index":"asc"}],"track_total_hits":false,
			"_source":["event","messaging.message.id","watership.attempt"]`, page, run)
		if after != nil {
			query += `,"search_after":` + string(after)
		}
		var answer struct {
			Shards struct {
				Failed int `json:"failed"`
			} `json:"_shards"`
			Hits struct {
				Hits []struct {
					Source struct {
						Event struct {
							ID       string    `json:"id"`
							Action   string    `json:"action"`
							Sequence int64     `json:"sequence"`
							Ingested time.Time `json:"ingested"`
						} `json:"event"`
						Messaging struct {
							Message struct {
								ID string `json:"id"`
							} `json:"message"`
						} `json:"messaging"`
						Watership struct {
							Attempt int `json:"attempt"`
						} `json:"watership"`
					} `json:"_source"`
					Sort json.RawMessage `json:"sort"`
				} `json:"hits"`
			} `json:"hits"`
		}
		if err := store(ctx, http.MethodPost, stream+"-traffic,"+stream+"-failures/_search?ignore_unavailable=true&allow_partial_search_results=false", query+"}", &answer); err != nil {
			return nil, err
		}
		for _, hit := range answer.Hits.Hits {
			e := hit.Source.Event
			all = append(all, event{e.ID, hit.Source.Messaging.Message.ID, e.Action, e.Sequence, hit.Source.Watership.Attempt, e.Ingested})
			after = hit.Sort
		}
		if len(answer.Hits.Hits) < page {
			return all, nil
		}
	}
}

// recorded is nil if the store has at least as many outcomes of a run as there are.
func recorded(ctx context.Context, run string, outcomes int) error {
	for _, actions := range []string{`"published"`, `"handled","poisoned"`} {
		query := fmt.Sprintf(`{"query":{"bool":{"filter":[{"term":{"headers.run":%q}},{"terms":{"event.action":[%s]}}]}}}`, run, actions)
		var answer struct {
			Count int `json:"count"`
		}
		if err := store(ctx, http.MethodPost, stream+"-traffic,"+stream+"-failures/_count?ignore_unavailable=true", query, &answer); err != nil {
			return err
		}
		if answer.Count < outcomes {
			return fmt.Errorf("the store has %d events %s of %d messages", answer.Count, actions, outcomes)
		}
	}
	return nil
}
