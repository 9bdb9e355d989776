package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// Each privilege of the documented role that a login lacks is named, on all that it
// is lacked on, and no other.
func TestDoctorNamesTheRightsThatAreMissing(t *testing.T) {
	t.Parallel() // most of it is waiting
	store := newSecured(t)
	full := documentedRole(t)
	roles := full.narrower(t)
	roles["nothing"] = full
	for lacking, user := range store.give(t, roles) {
		t.Run(lacking, func(t *testing.T) {
			list := store.findings(t, user)
			if lacking == "nothing" {
				servertest.WantFinding(t, list, doctor.OK, "", "rights: user "+user+" has those")
				return
			}
			want := "user " + user + " lacks " + full.without(lacking, user)
			found := servertest.Saying(list, doctor.Error, "rights: ")
			if found == nil || found.Detail != want || !strings.Contains(found.Remedy, "docs/permissions.md") {
				t.Errorf("%+v, want an error: %s", list, want)
			}
		})
	}
}

// findings returns the findings of doctor for a user that has nothing but this store.
func (s secured) findings(t *testing.T, user string) (list []doctor.Finding) {
	t.Helper()
	got := call(t.Context(), strings.NewReader(""), []string{
		"WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/",
		"WATERSHIP_STORE_URL=" + s.url, "WATERSHIP_STORE_STREAM=" + user,
		"WATERSHIP_STORE_USERNAME=" + user, "WATERSHIP_STORE_PASSWORD_FILE=" + s.password(),
		"WATERSHIP_STORE_TLS_CA=" + s.tls().CA, "WATERSHIP_STORE_TLS_CERT=" + s.tls().Cert, "WATERSHIP_STORE_TLS_KEY=" + s.tls().Key,
	}, "doctor", "-o", "json")
	if err := json.Unmarshal([]byte(got.Out), &list); err != nil {
		t.Fatalf("%v\n%s%s", err, got.Out, got.Err)
	}
	return list
}

// without describes the right that a narrower role lacks.
func (r role) without(lacking, stream string) string {
	kind, rest, _ := strings.Cut(lacking, " ")
	if kind == "cluster" {
		return rest + " for the cluster"
	}
	var n int
	var privilege string
	if _, err := fmt.Sscanf(rest, "%d %s", &n, &privilege); err != nil {
		return err.Error()
	}
	var texts []string
	for _, name := range r.Indices[n-1].Names {
		texts = append(texts, privilege+" on "+strings.ReplaceAll(name, "watership-messages", stream))
	}
	return strings.Join(texts, "; ")
}

// doctor lists logins that may report on messages of every queue, and gives the command
// that limits them.
func TestDoctorNamesReporters(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachServer(t, func(t *testing.T, broker rabbittest.Broker) {
		broker = broker.VHost(t)
		i := servertest.Around(t, broker).Install(t, servertest.Nobody)
		i.Must(t, "setup")
		exchange := schemas.Topology{Prefix: i.Prefix}.Report()
		list, _ := i.Findings(t)
		if found := servertest.Saying(list, doctor.Warning, "report on messages"); found != nil {
			t.Errorf("%+v", found)
		}
		as := broker.Login(t, rabbittest.Rights{Write: "^" + regexp.QuoteMeta(exchange) + "$"})
		everywhere := func() *doctor.Finding {
			list, _ := i.Findings(t)
			servertest.WantFinding(t, list, doctor.OK, "", "trust: states are not signed", "no other login")
			return servertest.Saying(list, doctor.Warning, "trust: logins may report on messages of every queue")
		}
		if found := everywhere(); found == nil || !strings.Contains(found.Remedy, "rabbitmqctl set_topic_permissions") || !strings.Contains(found.Remedy, exchange) {
			t.Errorf("without a topic permission: %+v", found)
		}
		broker.GrantTopic(t, as, exchange, ".*")
		if everywhere() == nil {
			t.Error("every routing key is limited")
		}
		broker.GrantTopic(t, as, exchange, "^invoices$")
		if found := everywhere(); found != nil {
			t.Errorf("limited to one queue: %+v", found)
		}
		list, _ = i.Findings(t)
		servertest.WantFinding(t, list, doctor.OK, "", "trust: 1 login may report on the messages of some queues")
	})
}

// What doctor recommends to a login without rights is enough for setup, and lets the
// login write nowhere else.
func TestDoctorGrantsNoMoreThanIsNeeded(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachServer(t, func(t *testing.T, admin rabbittest.Broker) {
		admin = admin.VHost(t)
		login := admin.Login(t, rabbittest.Rights{}, "monitoring")
		i := servertest.NewInstallation(t, login)
		i.OnServers(t, servertest.Nobody, servertest.StoreURL(t))
		channel := admin.Channel(t)
		if err := channel.ExchangeDeclare(i.Exchange, "topic", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := channel.QueueDeclare(i.Queue, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		list, _ := i.Findings(t)
		found := servertest.Saying(list, doctor.Error, "permissions")
		if found == nil {
			t.Fatalf("nothing is said of permissions: %+v", list)
		}
		rights := grantedBy(t, found.Remedy)
		admin.Grant(t, login, rights)
		i.Must(t, "setup")
		list, _ = i.Findings(t)
		servertest.WantFinding(t, list, doctor.Warning, "list_permissions", "trust: states are not signed", "only administrators")
		for _, name := range []string{"amq.default", "another", i.Exchange + "2", "x" + i.Queue, i.Prefix + "x.events"} {
			for _, right := range []string{rights.Configure, rights.Write, rights.Read} {
				if regexp.MustCompile(right).MatchString(name) {
					t.Errorf("%s allows %s", right, name)
				}
			}
		}
	})
}

// grantedBy reads the rights in a command for rabbitmqctl.
func grantedBy(t *testing.T, command string) rabbittest.Rights {
	t.Helper()
	words := regexp.MustCompile(`'(\^[^']*)'`).FindAllStringSubmatch(command, -1)
	if !strings.HasPrefix(command, "rabbitmqctl set_permissions --vhost ") || len(words) != 3 {
		t.Fatalf("no rights in: %s", command)
	}
	return rabbittest.Rights{Configure: words[0][1], Write: words[1][1], Read: words[2][1]}
}
