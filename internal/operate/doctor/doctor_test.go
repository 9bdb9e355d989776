package doctor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
)

const oneRoute = `WATERSHIP_ROUTES=[{queue: orders, handler: {http: {url: "http://127.0.0.1:1/"}}}]`

func TestNothingIsWrongAfterSetup(t *testing.T) {
	s := newSetUpSite(t, oneRoute, "WATERSHIP_TAP_EXCHANGES=[{name: shop, type: topic}]")
	list := Run(t.Context(), s.Config)
	for _, check := range []string{
		"files", "broker", "permissions", "management", "version", "store", "templates", "paused", "quarantine",
		"topology", "bindings", "returns", "leftovers", "tap", "dead_letters", "delays", "lag",
	} {
		found := of(check, list)
		if len(found) == 0 {
			t.Errorf("%s was not checked", check)
		}
		for _, f := range found {
			if f.Verdict != OK {
				t.Errorf("%+v", f)
			}
		}
	}
	for _, f := range list {
		if f.Verdict == Error {
			t.Errorf("%+v", f)
		}
		if f.Verdict == OK && f.Remedy != "" {
			t.Errorf("nothing is to be done: %+v", f)
		}
	}
}

func TestBeforeSetupTheRemedyIsSetup(t *testing.T) {
	s := newSite(t, oneRoute, "WATERSHIP_TAP_EXCHANGES=[{name: shop, type: topic}]")
	list := Run(t.Context(), s.Config)
	for check, detail := range map[string]string{
		"topology": "missing: watership.log", "routes": "queue orders is missing",
		"bindings": "exchange watership.tap is missing", "tap": "exchange shop is missing",
	} {
		want(t, of(check, list), Error, detail, "watership setup")
	}
}

func TestWithoutABrokerTheStoreIsChecked(t *testing.T) {
	s := newSite(t)
	s.Connect = func(context.Context) (*rabbit.Connection, error) { return nil, errors.New("no broker") }
	s.Management = func() (*rabbit.Management, error) { return nil, errors.New("no API") }
	list := Run(t.Context(), s.Config)
	want(t, of("broker", list), Error, "no broker", "start RabbitMQ")
	want(t, of("management", list), Warning, "no API", "amqp.management_url")
	want(t, of("store", list), OK, "SQLite answers", "")
	for _, check := range []string{"topology", "bindings", "watermarks", "paused", "subscriptions"} {
		if found := of(check, list); len(found) > 0 {
			t.Errorf("%s is told without a broker: %+v", check, found)
		}
	}
}

func TestWithoutAStoreTheBrokerIsChecked(t *testing.T) {
	s := newSetUpSite(t)
	s.OpenStore = func(context.Context) (Store, error) { return nil, errors.New("no store") }
	list := Run(t.Context(), s.Config)
	want(t, of("store", list), Error, "no store", "set store.url")
	want(t, of("topology", list), OK, "queues are there", "")
	for _, check := range []string{"templates", "quarantine", "watermarks", "order", "paused"} {
		if found := of(check, list); len(found) > 0 {
			t.Errorf("%s is told without a store: %+v", check, found)
		}
	}
}

func TestARequestThatIsNotAnsweredEnds(t *testing.T) {
	s := newSite(t)
	s.Timeout = time.Millisecond
	s.OpenStore = func(ctx context.Context) (Store, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	want(t, of("store", Run(t.Context(), s.Config)), Error, "no answer within 1ms", "")
}

func TestEachMistakeInFilesIsAFinding(t *testing.T) {
	s := newSite(t)
	s.Files = func() error {
		return errors.Join(errors.New("one"), errors.Join(errors.New("two"), errors.New("three")))
	}
	list := of("files", Run(t.Context(), s.Config))
	if len(list) != 3 {
		t.Errorf("%d findings\n%s", len(list), text(list))
	}
	for _, mistake := range []string{"one", "two", "three"} {
		want(t, list, Error, mistake, "serve does not start without it")
	}
}

func TestLimitsAreTheErrorsAboutQueues(t *testing.T) {
	s := newSetUpSite(t, oneRoute)
	if list := s.limits(t); len(list) != 0 {
		t.Errorf("nothing is limited:\n%s", text(list))
	}
	s.answer(t, "policies/%2F", `[{"name":"all","pattern":"^watership.log$","apply-to":"queues","definition":{"max-length":5}}]`)
	s.answer(t, "queues/%2F", `[{"name":"watership.log","type":"quorum","policy":"all","effective_policy_definition":{"max-length":5}},{"name":"orders","type":"quorum"}]`)
	list := s.limits(t)
	want(t, list, Error, `policy "all" limits what must not be dropped (max-length 5) in 1 queue: watership.log`, "set_policy")
	want(t, list, Error, "queue orders drops a message after 20 deliveries", "set_policy")
	for _, f := range list {
		if f.Verdict != Error {
			t.Errorf("%+v", f)
		}
	}
}

func TestLimitsNeedTheManagementAPI(t *testing.T) {
	s := newSite(t)
	s.Management = func() (*rabbit.Management, error) { return nil, errors.New("no API") }
	if list, err := Limits(t.Context(), s.Config); list != nil || err == nil || err.Error() != "no API" {
		t.Errorf("%+v, %v", list, err)
	}
	if list := Leftovers(t.Context(), s.Config); list != nil {
		t.Errorf("%+v", list)
	}
}
