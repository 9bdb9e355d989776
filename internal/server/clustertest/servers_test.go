package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// address returns the address of a server of a node.
func (n node) address(port int) string { return fmt.Sprintf("http://%s:%d", n, port) }

// ask sends a request, and decodes the answer.
func ask(ctx context.Context, method, url, body string, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: status %d: %.200s", method, url, response.StatusCode, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

// askAny asks nodes one after the other, until one answers.
func askAny(ctx context.Context, nodes []node, each time.Duration, question func(context.Context, node) error) error {
	var all error
	for _, n := range nodes {
		bounded, cancel := context.WithTimeout(ctx, each)
		err := question(bounded, n)
		cancel()
		if err == nil {
			return nil
		}
		all = errors.Join(all, err)
	}
	return all
}

// broker asks the management API.
func broker(ctx context.Context, path string, into any) error {
	return askAny(ctx, brokers(), 3*time.Second, func(ctx context.Context, n node) error {
		return ask(ctx, http.MethodGet, strings.Replace(n.address(15672), "//", "//guest:guest@", 1)+"/api/"+path, "", into)
	})
}

// store asks Elasticsearch.
func store(ctx context.Context, method, path, body string, into any) error {
	return askAny(ctx, stores(), 30*time.Second, func(ctx context.Context, n node) error {
		return ask(ctx, method, n.address(9200)+"/"+path, body, into)
	})
}

// queue is a queue as the management API knows it.
type queue struct {
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Node      string   `json:"node"`
	Leader    string   `json:"leader"`
	Members   []string `json:"members"`
	Online    []string `json:"online"`
	Messages  int      `json:"messages"`
	Consumers int      `json:"consumers"`
}

func queues(ctx context.Context) (all []queue, err error) {
	return all, broker(ctx, "queues/%2F", &all)
}

// leader returns the node that leads a queue.
func leader(ctx context.Context, name string) (node, error) {
	q, err := find(ctx, name)
	if err == nil && q.Leader == "" {
		err = fmt.Errorf("the queue %s has no leader", name)
	}
	return host(q.Leader), err
}

// home returns the node of a classic queue.
func home(ctx context.Context, name string) (node, error) {
	q, err := find(ctx, name)
	return host(q.Node), err
}

func find(ctx context.Context, name string) (queue, error) {
	all, err := queues(ctx)
	if err != nil {
		return queue{}, err
	}
	if i := slices.IndexFunc(all, func(q queue) bool { return q.Name == name }); i >= 0 {
		return all[i], nil
	}
	return queue{}, fmt.Errorf("the queue %s does not exist", name)
}

// host returns the node with a name of RabbitMQ, such as rabbit@rabbitmq1.
func host(name string) node {
	_, after, _ := strings.Cut(name, "@")
	return node(after)
}

// subscriber is a consumer as the management API knows it.
type subscriber struct {
	Queue struct {
		Name string `json:"name"`
	} `json:"queue"`
	Active  bool `json:"active"`
	Channel struct {
		Host string `json:"peer_host"`
		Node string `json:"node"`
	} `json:"channel_details"`
}

// activeConsumer returns the consumer to which a queue delivers.
func activeConsumer(ctx context.Context, name string) (subscriber, error) {
	var all []subscriber
	if err := broker(ctx, "consumers/%2F", &all); err != nil {
		return subscriber{}, err
	}
	if i := slices.IndexFunc(all, func(c subscriber) bool { return c.Queue.Name == name && c.Active }); i >= 0 {
		return all[i], nil
	}
	return subscriber{}, fmt.Errorf("the queue %s has no active consumer", name)
}

// consumer returns the process of serve to which a queue delivers.
func consumer(ctx context.Context, name string) (node, error) {
	c, err := activeConsumer(ctx, name)
	if err != nil {
		return "", err
	}
	return at(c.Channel.Host)
}

// at returns the instance of serve with an address, by the addresses of scripts/cluster.d/network.sh.
func at(address string) (node, error) {
	number, found := strings.CutPrefix(address, "127.77.0.3")
	if n := node("serve" + number); found && slices.Contains(serves(), n) {
		return n, nil
	}
	return "", fmt.Errorf("%s is no instance of serve", address)
}

// master returns the node of Elasticsearch that is the master.
func master(ctx context.Context) (node, error) {
	var all []struct {
		Node node `json:"node"`
	}
	if err := store(ctx, http.MethodGet, "_cat/master?format=json", "", &all); err != nil {
		return "", err
	}
	if len(all) == 0 || !slices.Contains(stores(), all[0].Node) {
		return "", errors.New("Elasticsearch has no master")
	}
	return all[0].Node, nil
}

// primary returns the node that has the primary of the index to which events are written.
func primary(ctx context.Context) (node, error) {
	var shards []struct {
		Index string `json:"index"`
		Kind  string `json:"prirep"`
		Node  node   `json:"node"`
	}
	if err := store(ctx, http.MethodGet, "_cat/shards/"+stream+"-traffic?format=json", "", &shards); err != nil {
		return "", err
	}
	newest, has := "", node("")
	for _, s := range shards {
		if s.Kind == "p" && s.Index > newest {
			newest, has = s.Index, s.Node
		}
	}
	if has == "" {
		return "", errors.New("no index of traffic has a primary")
	}
	return has, nil
}

// wholeStore is nil if Elasticsearch has all nodes and copies.
func wholeStore(ctx context.Context) error {
	var health struct {
		Status string `json:"status"`
		Nodes  int    `json:"number_of_nodes"`
	}
	if err := store(ctx, http.MethodGet, "_cluster/health?timeout=1s", "", &health); err != nil {
		return err
	}
	if health.Status != "green" || health.Nodes != len(stores()) {
		return fmt.Errorf("Elasticsearch is %s with %d nodes", health.Status, health.Nodes)
	}
	return nil
}

// wholeBroker is nil if all members of all quorum queues are online.
func wholeBroker(ctx context.Context) error {
	all, err := queues(ctx)
	if err != nil {
		return err
	}
	for _, q := range all {
		if q.Type == "quorum" && (len(q.Online) < len(q.Members) || q.Leader == "") {
			return fmt.Errorf("the queue %s has the leader %q, and of its members %s only %s are online", q.Name, q.Leader, q.Members, q.Online)
		}
	}
	return nil
}

// readiness returns the answer of an instance of serve; the status is 0 without one.
func readiness(ctx context.Context, n node) (status int, text string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.address(8181)+"/readyz", http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, strings.TrimSpace(string(body))
}

// metric returns the value of a metric without labels of an instance of serve.
func metric(ctx context.Context, n node, name string) (value string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.address(8181)+"/metrics", http.NoBody)
	if err != nil {
		return ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	for line := range strings.Lines(string(body)) {
		if after, found := strings.CutPrefix(line, name+" "); found {
			return strings.TrimSpace(after)
		}
	}
	return ""
}
