package server_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
)

// Three processes have different roles, and a message goes through all of them. doctor
// names the process of each role, the roles that no process has, and processes that would
// treat a message differently.
func TestRoles(t *testing.T) {
	t.Parallel() // most of it is waiting
	broker := rabbittest.NewestServer(t)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadRequest) }))
	defer service.Close()
	i := servertest.Install(t, broker, service.URL)
	if err := broker.Channel(t).ExchangeDeclare(i.Exchange, "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	i.Must(t, "setup")
	list, _ := i.Findings(t)
	for role, queue := range map[string]string{"retry": ".retry", "due": ".due", "poison": ".poison", "index": ".index"} {
		servertest.WantFinding(t, list, doctor.Warning, "run watership serve", "roles: no process has the role "+role, i.Prefix+queue)
	}

	processes := map[string]string{}
	for _, roles := range []string{"routes", "retry,due,poison", "index"} {
		_, p := i.WithRoles(t, roles)
		for role := range strings.SplitSeq(roles, ",") {
			processes[role] = strconv.Itoa(p.Cmd.Process.Pid)
		}
	}
	i.Send(t, i.Exchange, "ci", amqp.Publishing{MessageId: "m-1", Body: []byte("x")})
	i.Eventually(t, "action: poisoned and message.id: m-1", 1)
	servertest.Until(t, "doctor to find every role", func() bool {
		list, _ = i.Findings(t)
		for role, pid := range processes {
			if servertest.Saying(list, doctor.OK, "roles: "+role+" runs in ", ":"+pid) == nil {
				return false
			}
		}
		return servertest.Saying(list, doctor.Warning, "roles:") == nil
	})

	other, p := i.WithRoles(t, "retry", "WATERSHIP_RETRY_DEATHS=expired")
	servertest.Until(t, "doctor to find the other policies", func() bool {
		list, _ = i.Findings(t)
		return servertest.Saying(list, doctor.Warning, "roles: processes with the role retry have different policies", ":"+processes["retry"]+" (", ":"+strconv.Itoa(p.Cmd.Process.Pid)+" (") != nil
	})
	servertest.WantFinding(t, list, doctor.Warning, doctor.PoliciesRemedy, "different policies")
	servertest.Until(t, "the second process to say it", func() bool {
		return strings.Contains(p.Logs.String(), "processes with the role retry have different policies") && other.Scrape(t)[`watership_policies{role="retry"}`] == 2
	})
	stranger := broker.Channel(t)
	if _, err := stranger.Consume(i.Prefix+".poison", "stranger", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	servertest.Until(t, "doctor to find the stranger", func() bool {
		list, _ = i.Findings(t)
		return servertest.Saying(list, doctor.Warning, "roles: a consumer that is no process of Watership", i.Prefix+".poison: stranger") != nil
	})
}
