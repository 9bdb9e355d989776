package webhook

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// names is a DNS server in this process. Each query for a name gets the next of its lists of
// IPv4 addresses, the last one again and again; other names do not exist.
type names struct {
	mu sync.Mutex
	of map[string][][]string
}

// use lets this process ask the server.
func (n *names) use(t *testing.T) {
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go n.answer(theirs)
		return ours, nil
	}}
}

// answer answers one query, framed as on TCP.
func (n *names) answer(conn net.Conn) {
	defer conn.Close()
	query := make([]byte, 1<<12)
	size, err := conn.Read(query)
	if err != nil {
		return
	}
	var m dnsmessage.Message
	if m.Unpack(query[2:size]) != nil {
		return
	}
	m.Response, m.Additionals = true, nil
	n.mu.Lock()
	defer n.mu.Unlock()
	name := strings.TrimSuffix(m.Questions[0].Name.String(), ".")
	lists, found := n.of[name]
	if !found {
		m.RCode = dnsmessage.RCodeNameError
	} else if m.Questions[0].Type == dnsmessage.TypeA {
		for _, address := range lists[0] {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(address).As4()},
			})
		}
		n.of[name] = lists[min(1, len(lists)-1):]
	}
	packed, err := m.Pack()
	if err != nil {
		return
	}
	_, _ = conn.Write(append([]byte{byte(len(packed) >> 8), byte(len(packed))}, packed...))
}

// An address counts when it is dialled: it does not matter that the name had another one a
// moment before. A name with an address that is allowed is unavailable if that one does not
// answer, and a name without any as well.
func TestAddressesOfNames(t *testing.T) {
	(&names{of: map[string][][]string{
		"one.test":  {{"127.0.0.1"}},
		"turn.test": {{"127.0.0.1"}, {"127.0.0.2"}},
		"two.test":  {{"127.0.0.2", "127.0.0.1"}},
		"bad.test":  {{"127.0.0.2", "10.0.0.1"}},
		"away.test": {{"127.0.0.2", "127.0.0.1"}, {"127.0.0.1", "127.0.0.2"}},
		"none.test": {{}},
	}}).use(t)
	server, _ := keeping(t)
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	const away = "1" // nothing listens on it
	cfg := Config{URL: "http://{headers.h}/s3cret?s3cret", Hosts: []string{"*" + port, "*:" + away}, PrivateNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	for host, want := range map[string][]Meaning{
		"one.test" + port:      {Handled},
		"turn.test" + port:     {Handled, Poison},
		"two.test" + port:      {Handled},
		"bad.test" + port:      {Poison},
		"away.test:" + away:    {Unavailable, Unavailable},
		"none.test" + port:     {Unavailable},
		"nxdomain.test" + port: {Unavailable},
	} {
		var got []Meaning
		var last error
		for range want {
			means := Handled
			if last = post(cfg, schemas.Envelope{Headers: amqp.Table{"h": host}}, retry.Attempt{}); last != nil {
				means = meaningOf(last)
			}
			got = append(got, means)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v: %v", host, got, want, last)
		}
		var dns *net.DNSError
		if isDNS := strings.HasPrefix(host, "n"); errors.As(last, &dns) != isDNS || last != nil && (strings.Contains(last.Error(), "s3cret") || !strings.Contains(last.Error(), "http://"+host)) {
			t.Errorf("%s: the error is %v", host, last)
		}
	}
}
