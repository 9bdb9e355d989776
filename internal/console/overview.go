package console

import "net/http"

// overview shows the state of the system at a glance.
func (c *Console) overview(*http.Request) (response, error) {
	return page{Title: "Overview", Section: "/", Template: "overview.html"}, nil
}
