package elastic

import (
	"context"
	"strings"

	"github.com/elastic/go-elasticsearch/v8/esapi"
)

// privileges has the form of the request body of Elasticsearch's has-privileges API.
type privileges struct {
	Cluster []string `json:"cluster"`
	Indices []grant  `json:"index"`
}

// grant has the privileges for some data streams or indices.
type grant struct {
	Names      []string `json:"names"`
	Privileges []string `json:"privileges"`
}

// requiredPrivileges are the privileges of serve. No other command but `quarantine
// rewrite` needs more (see Replace), since serve installs the templates as setup does.
// docs/permissions.md lists them for the default stream.
func (s *Store) requiredPrivileges() privileges {
	return privileges{
		Cluster: []string{"monitor", "manage_index_templates"},
		Indices: []grant{
			{s.writtenNames(), []string{
				"auto_configure", "create_doc", "read", "view_index_metadata", "maintenance",
				"manage_data_stream_lifecycle", "indices:admin/rollover", "monitor",
			}},
			{[]string{s.jobs.index}, []string{"create_index", "read", "index", "maintenance"}},
			{[]string{s.records.index, s.subjects.index}, []string{"create_index", "read", "index", "delete", "maintenance"}},
		},
	}
}

func (s *Store) writtenNames() []string {
	var names []string
	for _, stream := range s.written() {
		names = append(names, s.dataStream(stream))
	}
	return names
}

// Login is the user of the configured credentials.
type Login struct {
	// User is the owner of a login or an API key; "" if security is disabled, which allows everything, and
	// for OpenSearch, which does not name it.
	User string

	// Lacks are the missing privileges, such as "read, maintenance on
	// watership-messages-traffic". Without some of them nothing fails, but searches
	// find nothing.
	Lacks []string
}

// Login asks Elasticsearch for the login's own privileges, which every login may do
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/security-api-has-privileges.html).
func (s *Store) Login(ctx context.Context) (Login, error) {
	return s.loginWith(ctx, s.requiredPrivileges())
}

func (c *client) loginWith(ctx context.Context, required privileges) (Login, error) {
	const operation = "reading the privileges of the login"
	dialect, err := c.dialect(ctx, operation)
	if err != nil || dialect.product() == OpenSearch {
		return Login{}, err
	}
	var response privilegesResponse
	request := esapi.SecurityHasPrivilegesRequest{Body: asJSON(required)}
	err = c.requestJSON(ctx, operation, request, &response)
	if errorContains(err, "no handler found") { // security is disabled
		return Login{}, nil
	}
	if err != nil {
		return Login{}, err
	}
	return Login{response.User, response.lacks(required)}, nil
}

// privilegesResponse has a bool for each privilege.
type privilegesResponse struct {
	User    string                     `json:"username"`
	Cluster map[string]bool            `json:"cluster"`
	Index   map[string]map[string]bool `json:"index"` // by name
}

func (a privilegesResponse) lacks(required privileges) []string {
	lacks := missingPrivileges(required.Cluster, a.Cluster, "for the cluster")
	for _, grant := range required.Indices {
		for _, name := range grant.Names {
			lacks = append(lacks, missingPrivileges(grant.Privileges, a.Index[name], "on "+name)...)
		}
	}
	return lacks
}

// missingPrivileges returns one text, or none if all are granted.
func missingPrivileges(privileges []string, granted map[string]bool, where string) []string {
	var lacking []string
	for _, privilege := range privileges {
		if !granted[privilege] {
			lacking = append(lacking, privilege)
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return []string{strings.Join(lacking, ", ") + " " + where}
}
