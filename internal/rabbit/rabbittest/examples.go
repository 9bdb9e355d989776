package rabbittest

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/watershipmq/watership/broker"
)

// WithExamples runs the tests of a package whose examples connect to AMQP_URL. It
// sets AMQP_URL to the newest RabbitMQ, with a new virtual host since examples use
// common names, or to an embedded broker if there is no RabbitMQ. It returns the
// exit code.
func WithExamples(m *testing.M) int {
	address, remove, err := exampleBroker()
	if err == nil {
		defer remove()
		err = os.Setenv("AMQP_URL", address)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "a broker for the examples:", err)
		return 1
	}
	return m.Run()
}

func exampleBroker() (address string, remove func(), err error) {
	brokers := strings.Fields(os.Getenv("WATERSHIP_TEST_AMQP_URLS"))
	managements := strings.Fields(os.Getenv("WATERSHIP_TEST_MANAGEMENT_URLS"))
	if len(brokers) == 0 || len(managements) < len(brokers) {
		inside := broker.New(broker.Config{})
		listening, err := inside.Listen("127.0.0.1:0")
		return fmt.Sprintf("amqp://guest:guest@%s/", listening), func() { _ = inside.Close() }, err
	}
	newest := len(brokers) - 1
	return NewVirtualHost(brokers[newest], managements[newest])
}

// NewVirtualHost creates a virtual host and returns its AMQP URL. Remove deletes
// the virtual host with everything in it.
func NewVirtualHost(brokerURL, managementURL string) (address string, remove func(), err error) {
	return newVirtualHost(brokerURL, managementURL, "{}")
}

func newVirtualHost(brokerURL, managementURL, settings string) (address string, remove func(), err error) {
	u, err := url.Parse(brokerURL)
	if err != nil {
		return "", nil, err
	}
	name := "test." + rand.Text()
	if err := manage(managementURL, http.MethodPut, "/api/vhosts/"+name, settings); err != nil {
		return "", nil, err
	}
	remove = func() { _ = manage(managementURL, http.MethodDelete, "/api/vhosts/"+name, "") }
	err = manage(managementURL, http.MethodPut, fmt.Sprintf("/api/permissions/%s/%s", name, u.User.Username()),
		`{"configure":".*","write":".*","read":".*"}`)
	u.Path = "/" + name
	return u.String(), remove, err
}

func manage(managementURL, method, path, body string) error {
	request, err := http.NewRequest(method, managementURL+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Close = true // RabbitMQ ends idle connections at any time
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s %s: %s %s", method, path, response.Status, text)
	}
	return nil
}
