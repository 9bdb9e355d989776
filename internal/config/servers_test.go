package config

import (
	"slices"
	"testing"
)

func TestWithServers(t *testing.T) {
	found := Servers{
		AMQP: NewURL("amqp://guest:secret@127.0.0.1:5999/"), Management: NewURL("http://guest:secret@127.0.0.1:15999"),
		Store: NewURL("sqlite:/data/store.db"),
	}
	shown := func(c Config) map[string]string {
		values := map[string]string{}
		for _, s := range c.Describe() {
			if s.Origin == (Origin{Place: Derived, Name: "/data"}) {
				values[s.Key] = s.Value
			}
		}
		return values
	}
	for name, test := range map[string]struct {
		file  string
		found Servers
		want  map[string]string
	}{
		"nothing is set": {"", found, map[string]string{
			"amqp.url": "amqp://guest:xxxxx@127.0.0.1:5999/", "amqp.management_url": "http://guest:xxxxx@127.0.0.1:15999", "store.url": "sqlite:/data/store.db",
		}},
		"management_url is set": {"\namqp: {url: 'embedded://', management_url: 'http://other:15672'}\n", found, map[string]string{
			"amqp.url": "amqp://guest:xxxxx@127.0.0.1:5999/", "store.url": "sqlite:/data/store.db",
		}},
		"store only": {"", Servers{AMQP: NewURL(Embedded), Store: found.Store}, map[string]string{
			"amqp.url": Embedded, "store.url": "sqlite:/data/store.db",
		}},
		"broker only": {"\namqp: {url: 'amqp://me@rabbit', password_file: /secret}\nstore: {url: 'http://elasticsearch:9200'}\n", Servers{AMQP: found.AMQP, Management: found.Management}, map[string]string{
			"amqp.url": "amqp://guest:xxxxx@127.0.0.1:5999/", "amqp.management_url": "http://guest:xxxxx@127.0.0.1:15999",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			before := load(t, test.file, nil, nil)
			described := before.Describe()
			c := before.WithServers(test.found, "/data")
			if got := shown(c); len(got) != len(test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
			for key, want := range test.want {
				if got := shown(c)[key]; got != want {
					t.Errorf("%s is %q, want %q", key, got, want)
				}
			}
			if c.AMQP.URL != test.found.AMQP || !c.AMQP.URL.IsEmbedded() && c.AMQP.PasswordFile != "" {
				t.Errorf("broker %v", c.AMQP)
			}
			if !slices.Equal(before.Describe(), described) || c.IsSet("amqp.url") != before.IsSet("amqp.url") {
				t.Error("the configuration before has changed")
			}
		})
	}
}
