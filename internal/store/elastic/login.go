package elastic

import (
	"context"
	"strings"

	"github.com/elastic/go-elasticsearch/v8/esapi"
)

// role is what a login needs to be allowed, in the form in which Elasticsearch is
// asked for it.
type role struct {
	Cluster []string `json:"cluster"`
	Indices []grant  `json:"index"`
}

// grant is what it needs on some data streams or indices.
type grant struct {
	Names      []string `json:"names"`
	Privileges []string `json:"privileges"`
}

// role is what serve needs, and no other command needs more: serve installs the
// templates as setup does. The page on security lists it for the default stream.
func (s *Store) role() role {
	return role{
		Cluster: []string{"monitor", "manage_index_templates"},
		Indices: []grant{
			{s.both(), []string{
				"auto_configure", "create_doc", "read", "view_index_metadata", "maintenance",
				"manage_data_stream_lifecycle", "indices:admin/rollover", "monitor",
			}},
			{[]string{s.jobs()}, []string{"create_index", "read", "index", "maintenance"}},
		},
	}
}

// Login is who we are for Elasticsearch.
type Login struct {
	User string // also of an API key; "" where security is off: everybody may do everything

	// Lacks are the privileges that it needs and does not have, such as "read,
	// maintenance on watership-messages-traffic". Without some of them nothing
	// fails, and searches find nothing.
	Lacks []string
}

// Login asks Elasticsearch what our login may do, which every login may ask
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/security-api-has-privileges.html).
func (s *Store) Login(ctx context.Context) (Login, error) {
	var answer allowed
	needed := s.role()
	request := esapi.SecurityHasPrivilegesRequest{Body: asJSON(needed)}
	err := s.ask(ctx, "asking for the privileges of our login", request, &answer)
	if says(err, "no handler found") { // security is off
		return Login{}, nil
	}
	if err != nil {
		return Login{}, err
	}
	return Login{answer.User, answer.lacks(needed)}, nil
}

// allowed says of each privilege whether our login has it.
type allowed struct {
	User    string                     `json:"username"`
	Cluster map[string]bool            `json:"cluster"`
	Index   map[string]map[string]bool `json:"index"` // by name
}

func (a allowed) lacks(needed role) []string {
	lacks := missing(needed.Cluster, a.Cluster, "for the cluster")
	for _, grant := range needed.Indices {
		for _, name := range grant.Names {
			lacks = append(lacks, missing(grant.Privileges, a.Index[name], "on "+name)...)
		}
	}
	return lacks
}

// missing is one text, or none where each is had.
func missing(privileges []string, had map[string]bool, where string) []string {
	var without []string
	for _, privilege := range privileges {
		if !had[privilege] {
			without = append(without, privilege)
		}
	}
	if len(without) == 0 {
		return nil
	}
	return []string{strings.Join(without, ", ") + " " + where}
}
