package config

import "slices"

// Servers are the addresses of servers that a command found, such as the servers of a
// process that runs in its data folder.
type Servers struct {
	AMQP       URL // with its password
	Management URL // for a configuration without amqp.management_url; may be empty
	Store      URL // empty: as configured
}

// NamesServers reports whether the sources name servers, or a secret for servers at their
// default addresses.
func (c Config) NamesServers() bool {
	return slices.ContainsFunc([]string{"amqp.url", "store.url", "amqp.password_file", "store.username", "store.password_file", "store.api_key_file"}, c.IsSet)
}

// WithServers returns a configuration with other servers. Describe lists them with
// the folder that they come from; IsSet reports only keys that the sources set.
func (c Config) WithServers(s Servers, folder string) Config {
	c.settings = slices.Clone(c.settings)
	origin := Origin{Place: Derived, Name: folder}
	c.AMQP.URL = s.AMQP
	c.describe("amqp.url", s.AMQP.String(), origin)
	if !s.AMQP.IsEmbedded() {
		c.AMQP.PasswordFile = ""
		c.describe("amqp.password_file", "", origin)
	}
	if !c.IsSet("amqp.management_url") {
		c.AMQP.ManagementURL = s.Management
		c.describe("amqp.management_url", s.Management.String(), origin)
	}
	if !s.Store.IsZero() {
		c.Store.URL = s.Store
		c.describe("store.url", s.Store.String(), origin)
	}
	return c
}

// describe replaces the setting of a key, which an empty value removes.
func (c *Config) describe(key, value string, origin Origin) {
	at := slices.IndexFunc(c.settings, func(s Setting) bool { return s.Key == key })
	switch {
	case at < 0 && value != "":
		c.settings = append(c.settings, Setting{key, value, origin})
	case at >= 0 && value != "":
		c.settings[at] = Setting{key, value, origin}
	case at >= 0:
		c.settings = slices.Delete(c.settings, at, at+1)
	}
}
