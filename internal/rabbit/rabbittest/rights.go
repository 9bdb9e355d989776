package rabbittest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Rights are the patterns of names that a user may configure, write and read
// (https://www.rabbitmq.com/docs/access-control). "" matches no name.
type Rights struct {
	Configure string `json:"configure"`
	Write     string `json:"write"`
	Read      string `json:"read"`
}

// VHost returns the broker with a new virtual host, deleted when the test ends. The embedded
// broker, and one with policies, are returned unchanged, since they are not shared.
func (b Broker) VHost(t testing.TB) Broker {
	t.Helper()
	if b.Own || b.Policies {
		return b
	}
	return b.newVHost(t, "{}")
}

// newVHost is VHost of a RabbitMQ, with settings as JSON.
func (b Broker) newVHost(t testing.TB, settings string) Broker {
	t.Helper()
	address, remove, err := newVirtualHost(b.URL, b.ManagementURL, settings)
	if err != nil {
		t.Fatalf("make a virtual host: %v", err)
	}
	t.Cleanup(remove)
	b.URL = address
	return b
}

// Login returns the broker with a new user that has rights in its virtual host. The
// embedded broker has no permissions and is returned unchanged.
func (b Broker) Login(t testing.TB, rights Rights, tags ...string) Broker {
	t.Helper()
	if b.Own {
		return b
	}
	user := "test-" + strings.ToLower(rand.Text()[:10])
	b.Manage(t, http.MethodPut, "/api/users/"+user, fmt.Sprintf(`{"password":"p@ss/word","tags":%q}`, strings.Join(tags, ",")))
	t.Cleanup(func() { b.Manage(t, http.MethodDelete, "/api/users/"+user, "") })
	as := b
	as.URL, as.ManagementURL = withUser(t, b.URL, user), withUser(t, b.ManagementURL, user)
	b.Grant(t, as, rights)
	return as
}

// User returns the user in the URL.
func (a Address) User(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.User.Username()
}

// Grant replaces the permissions of a Login's user.
func (b Broker) Grant(t testing.TB, as Broker, rights Rights) {
	t.Helper()
	body, err := json.Marshal(rights)
	if err != nil {
		t.Fatal(err)
	}
	b.Manage(t, http.MethodPut, "/api/permissions/"+url.PathEscape(b.VHostName(t))+"/"+as.User(t), string(body))
}

// GrantTopic lets a Login's user publish to a topic exchange with routing keys that match a
// pattern (https://www.rabbitmq.com/docs/access-control#topic-authorisation).
func (b Broker) GrantTopic(t testing.TB, as Broker, exchange, write string) {
	t.Helper()
	b.Manage(t, http.MethodPut, "/api/topic-permissions/"+url.PathEscape(b.VHostName(t))+"/"+as.User(t),
		fmt.Sprintf(`{"exchange":%q,"write":%q,"read":""}`, exchange, write))
}

// VHostName returns the virtual host in the URL.
func (a Address) VHostName(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	if name := strings.TrimPrefix(u.Path, "/"); name != "" {
		return name
	}
	return "/"
}

// Manage sends a request to the management API, whose answer has to be a success. The path begins with
// /api/.
func (b Broker) Manage(t testing.TB, method, path, body string) {
	t.Helper()
	if err := manage(b.ManagementURL, method, path, body); err != nil {
		t.Fatal(err)
	}
}

func withUser(t testing.TB, address, user string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, "p@ss/word")
	return u.String()
}

// DocumentedRights returns the permissions that docs/permissions.md lists for
// Watership, with the given names in place of watership, shop and orders.
func DocumentedRights(t testing.TB, prefix, exchange, queue string) Rights {
	t.Helper()
	return DocumentedRightsOf(t, "watership", map[string]string{"watership": prefix, "shop": exchange, "orders": queue})
}

// DocumentedRightsOf returns the permissions that docs/permissions.md lists for a
// user, with the names of exchanges and queues replaced.
func DocumentedRightsOf(t testing.TB, user string, names map[string]string) Rights {
	t.Helper()
	command := regexp.MustCompile("(?m)^rabbitmqctl set_permissions --vhost / " + regexp.QuoteMeta(user) + " '(.*)' '(.*)' '(.*)'$")
	found := command.FindStringSubmatch(document(t, "docs/permissions.md"))
	if found == nil {
		t.Fatalf("docs/permissions.md gives no rights at RabbitMQ to %s", user)
	}
	var pairs []string
	for name, other := range names {
		pairs = append(pairs, name, regexp.QuoteMeta(other))
	}
	replaced := strings.NewReplacer(pairs...)
	return Rights{replaced.Replace(found[1]), replaced.Replace(found[2]), replaced.Replace(found[3])}
}

// DocumentedTopic returns the pattern of routing keys that docs/permissions.md lets a user
// publish with, with names replaced as by DocumentedRightsOf.
func DocumentedTopic(t testing.TB, user string, names map[string]string) string {
	t.Helper()
	command := regexp.MustCompile("(?m)^rabbitmqctl set_topic_permissions --vhost / " + regexp.QuoteMeta(user) + ` \S+ '(.*)' '.*'$`)
	found := command.FindStringSubmatch(document(t, "docs/permissions.md"))
	if found == nil {
		t.Fatalf("docs/permissions.md gives no topic permission to %s", user)
	}
	pattern := found[1]
	for name, other := range names {
		pattern = strings.ReplaceAll(pattern, name, regexp.QuoteMeta(other))
	}
	return pattern
}

// document returns the content of a file of the repository.
func document(t testing.TB, path string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err == nil {
			return string(text)
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("%s is in no folder above", path)
		}
		dir = filepath.Dir(dir)
	}
}
