package cli

import (
	"net/url"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/kibana"
)

// kibanaAccess holds the flags that say where Kibana is and how to log in.
type kibanaAccess struct {
	url, user, passwordFile, ca string
}

func (a *kibanaAccess) addFlags(cmd *cobra.Command) {
	addGiven(cmd.Flags(), &a.url, "kibana", "URL of Kibana, to import or update the data view, searches and dashboard")
	addGiven(cmd.Flags(), &a.user, "kibana-user", "user of Kibana")
	addGiven(cmd.Flags(), &a.passwordFile, "kibana-password-file", "file with the password of --kibana-user")
	addGiven(cmd.Flags(), &a.ca, "kibana-ca", "PEM file with the certificate authorities to trust for Kibana")
}

// open checks the flags and returns a client; nil without --kibana.
func (a kibanaAccess) open() (*kibana.Client, error) {
	if a.url == "" {
		if a != (kibanaAccess{}) {
			return nil, usagef("--kibana-user, --kibana-password-file and --kibana-ca need --kibana")
		}
		return nil, nil
	}
	to, err := url.Parse(a.url)
	if err != nil || to.Host == "" {
		return nil, usagef("--kibana %s: expected a URL such as http://localhost:5601", config.NewURL(a.url))
	}
	if err := a.logIn(to); err != nil {
		return nil, err
	}
	trusted, err := app.ReadTLS("--kibana", config.TLS{CA: a.ca})
	if err != nil {
		return nil, err
	}
	return kibana.NewClient(to, trusted), nil
}

// logIn puts the user and the password of the flags into the URL.
func (a kibanaAccess) logIn(to *url.URL) error {
	if (a.user == "") != (a.passwordFile == "") {
		return usagef("--kibana-user and --kibana-password-file: expected both or neither")
	}
	if a.user == "" {
		return nil
	}
	if to.User != nil {
		return usagef("--kibana-user: --kibana %s names a user too", config.NewURL(a.url))
	}
	password, err := app.ReadSecret("--kibana-password-file", a.passwordFile)
	to.User = url.UserPassword(a.user, password)
	return err
}
