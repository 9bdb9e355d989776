package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// withRoles starts serve with some roles and more settings.
func (i *installation) withRoles(t *testing.T, roles string, settings ...string) (one *installation, p *process) {
	t.Helper()
	process := *i
	process.listen = freeAddress(t)
	process.environ = append(os.Environ(), "WATERSHIP_ROLES="+roles, "WATERSHIP_HTTP_LISTEN="+process.listen)
	process.environ = append(process.environ, settings...)
	return &process, process.serve(t)
}

// Three processes have different roles, and a message goes through all of them. doctor
// names the process of each role, the roles that no process has, and processes that would
// treat a message differently.
func TestRoles(t *testing.T) {
	t.Parallel() // most of it is waiting
	broker := rabbittest.NewestServer(t)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadRequest) }))
	defer service.Close()
	i := install(t, broker, service.URL)
	if err := broker.Channel(t).ExchangeDeclare(i.exchange, "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	i.must(t, "setup")
	list, _ := i.findings(t)
	for role, queue := range map[string]string{"retry": ".retry", "due": ".due", "poison": ".poison", "index": ".index"} {
		wantFinding(t, list, doctor.Warning, "run watership serve", "roles: no process has the role "+role, i.prefix+queue)
	}

	processes := map[string]string{}
	for _, roles := range []string{"routes", "retry,due,poison", "index"} {
		_, p := i.withRoles(t, roles)
		for role := range strings.SplitSeq(roles, ",") {
			processes[role] = strconv.Itoa(p.cmd.Process.Pid)
		}
	}
	i.send(t, i.exchange, "ci", amqp.Publishing{MessageId: "m-1", Body: []byte("x")})
	i.eventually(t, "action: poisoned and message.id: m-1", 1)
	until(t, "doctor to find every role", func() bool {
		list, _ = i.findings(t)
		for role, pid := range processes {
			if saying(list, doctor.OK, "roles: "+role+" runs in ", ":"+pid) == nil {
				return false
			}
		}
		return saying(list, doctor.Warning, "roles:") == nil
	})

	other, p := i.withRoles(t, "retry", "WATERSHIP_RETRY_DEATHS=expired")
	until(t, "doctor to find the other policies", func() bool {
		list, _ = i.findings(t)
		return saying(list, doctor.Warning, "roles: processes with the role retry have different policies", ":"+processes["retry"]+" (", ":"+strconv.Itoa(p.cmd.Process.Pid)+" (") != nil
	})
	wantFinding(t, list, doctor.Warning, doctor.PoliciesRemedy, "different policies")
	until(t, "the second process to say it", func() bool {
		return strings.Contains(p.logs.String(), "processes with the role retry have different policies") && other.scrape(t)[`watership_policies{role="retry"}`] == 2
	})
	stranger := broker.Channel(t)
	if _, err := stranger.Consume(i.prefix+".poison", "stranger", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	until(t, "doctor to find the stranger", func() bool {
		list, _ = i.findings(t)
		return saying(list, doctor.Warning, "roles: a consumer that is no process of Watership", i.prefix+".poison: stranger") != nil
	})
}
