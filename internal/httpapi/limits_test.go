package httpapi_test

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/schemas"
)

func TestRequestsAreBounded(t *testing.T) {
	inEachStore(t, func(t *testing.T, r rig) {
		large := `{"query":"*","reason":"` + strings.Repeat("x", 1<<20) + `"}`
		r.do(t, http.MethodPost, "/failures/discard", large).wantProblem(t, http.StatusRequestEntityTooLarge, "too large")
		r.do(t, http.MethodGet, "/events"+query("query", strings.Repeat("é", 4001)), "").wantProblem(t, http.StatusUnprocessableEntity, "validation")
	})
}

// A body that a check in front of the server may read as another request is refused.
func TestMembersTwiceOrInAnotherCase(t *testing.T) {
	inEachStore(t, func(t *testing.T, r rig) {
		for body, place := range map[string]string{
			`{"query":"*","reason":"x","dry_run":true,"dry_run":false}`:                        "body.dry_run",
			`{"query":"*","reason":"x","DRY_RUN":true}`:                                        "body.DRY_RUN",
			`{"query":"*","reason":"x","dry_run":true,"DRY_RUN":false}`:                        "body.DRY_RUN",
			`{"query":"*","reason":"x","dry_run":true,"dry\u005frun":true}`:                    "body.dry_run",
			`{"dsl":{"bool":{"filter":[{"term":{"a":1,"a":2}}]}},"reason":"x","dry_run":true}`: "body.dsl.bool.filter[0].term.a",
		} {
			refused := r.do(t, http.MethodPost, "/failures/discard", body)
			refused.wantProblem(t, http.StatusUnprocessableEntity, "validation")
			if !strings.Contains(string(refused.body), `"`+place+`"`) {
				t.Errorf("%s: %s", body, refused.body)
			}
		}
		r.do(t, http.MethodPost, "/failures/discard", `{"query":"*","reason":"x","dry_run":true}`).json(t)
		if got := r.do(t, http.MethodPost, "/failures/discard", `{"dsl":{"terms":{"a":1,"A":1}},"reason":"x","dry_run":true}`); strings.Contains(string(got.body), "in the case of") {
			t.Errorf("a part of a query: %s", got.body)
		}
	})
}

// An identity has a few streams at a time, so that others have some.
func TestStreamsOfAnIdentity(t *testing.T) {
	inEachStore(t, func(t *testing.T, r rig) {
		bob := r.as(t, access.Token{Name: "bob", Role: access.Viewer, Bodies: true})
		var ends []func()
		for range 4 {
			_, end := bob.stream(t, "/events/tail", "")
			ends = append(ends, end)
		}
		refused := bob.do(t, http.MethodGet, "/events/export"+query("query", "*"), "")
		refused.wantProblem(t, http.StatusTooManyRequests, "too many streams of bob")
		if refused.Header.Get("Retry-After") != "1" || refused.Close {
			t.Errorf("Retry-After is %q, close %v", refused.Header.Get("Retry-After"), refused.Close)
		}
		bob.get(t, "/events")
		_, end := r.stream(t, "/events/tail", "")
		end()
		ends[0]()
		eventually(t, "bob has another stream", func() bool {
			return bob.do(t, http.MethodGet, "/events/export"+query("query", "*"), "").StatusCode == http.StatusOK
		})
		for _, end := range ends {
			end()
		}
	})
}

// While RabbitMQ does not answer, requests that need it wait for nobody else, and the store
// is read.
func TestABrokerThatDoesNotAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	inEachStore(t, func(t *testing.T, r rig) {
		r.keep(t, r.event(1, schemas.Published))
		var waiting sync.WaitGroup
		for range 4 {
			waiting.Go(func() {
				problem := r.do(t, http.MethodPost, "/messages", `{"exchange":"shop"}`).wantProblem(t, http.StatusServiceUnavailable, "connecting to")
				if problem["remedy"] == nil {
					t.Errorf("%v", problem)
				}
			})
		}
		if got := ids(t, r.get(t, "/events")); got != "m-1" {
			t.Errorf("%q", got)
		}
		waiting.Wait()
	}, "WATERSHIP_AMQP_URL=amqp://guest:guest@"+listener.Addr().String()+"/")
}
