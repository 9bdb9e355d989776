package config

import (
	"reflect"
	"testing"
)

// No change of a copy reaches the original: every slice and map that a
// configuration holds, however deep, is another one in its clone.
func TestCloneSharesNothing(t *testing.T) {
	c := load(t, full, nil, nil)
	cloned := c.Clone()
	diffConfig(t, c, cloned)
	original := memory(reflect.ValueOf(c), "config", map[string]uintptr{})
	for path, address := range memory(reflect.ValueOf(cloned), "config", map[string]uintptr{}) {
		if original[path] == address {
			t.Errorf("%s is the same memory in both", path)
		}
	}
	for _, path := range []string{
		"config.Routes", "config.Routes[0].Bind", "config.Routes[0].Handler.HTTP.Statuses", "config.Routes[0].Handler.HTTP.Answers", "config.Routes[0].Handler.HTTP.Headers",
		"config.Routes[1].Handler.HTTP.SetHeaders", "config.Routes[1].Handler.HTTP.Hosts", "config.Routes[1].Handler.HTTP.PrivateNetworks",
		"config.Tap.Exchanges", "config.Tap.Exchanges[1].Keys", "config.Retry.Policies", "config.Retry.Policies[slow].Delays",
		"config.Retry.Policies[growing].Classes", "config.Retry.Policies[growing].Classes[ordering].Delays",
		"config.Retry.Deaths", "config.Index.Labels", "config.Index.NumericLabels", "config.Index.TimeHeaders", "config.Fingerprint.IgnoreHeaders", "config.Streams",
	} {
		if original[path] == 0 {
			t.Errorf("%s was not compared", path)
		}
	}
}

// memory collects the address of every exported slice and map with elements.
func memory(v reflect.Value, path string, into map[string]uintptr) map[string]uintptr {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				memory(v.Field(i), path+"."+field.Name, into)
			}
		}
	case reflect.Slice:
		if v.Len() > 0 {
			into[path] = v.Pointer()
		}
		for i := range v.Len() {
			memory(v.Index(i), element(path, i), into)
		}
	case reflect.Map:
		if v.Len() > 0 {
			into[path] = v.Pointer()
		}
		for _, key := range v.MapKeys() {
			memory(v.MapIndex(key), path+"["+key.String()+"]", into)
		}
	case reflect.Pointer, reflect.Interface, reflect.Chan, reflect.Func:
		into[path] = 1 // whose memory Clone does not know
	}
	return into
}

// A change of one configuration's policies, routes or settings reaches no other.
func TestLoadedConfigurationsAreApart(t *testing.T) {
	sources := Sources{Flags: map[string]string{
		"routes": "[{queue: a, handler: {http: {url: 'http://h/', statuses: {404: poison}, answers: [{status: 400, class: a}], headers: [x-tenant]}}}]", "index.labels": "tenant",
	}}
	first, err := Load(sources)
	if err != nil {
		t.Fatal(err)
	}
	first.Retry.Policies["default"].Delays[0] = 0
	delete(first.Retry.Policies, "default")
	first.Routes[0].Queue = "changed"
	first.Routes[0].Handler.HTTP.Statuses["404"] = HTTPOutcome{Means: "retry"}
	first.Index.Labels[0] = "changed"
	for i := range first.Describe() {
		first.Describe()[i].Value = "changed"
	}
	second, err := Load(sources)
	if err != nil {
		t.Fatal(err)
	}
	if second.Retry.Policies["default"].Delays[0] == 0 || second.Routes[0].Queue != "a" || second.Index.Labels[0] != "tenant" ||
		second.Routes[0].Handler.HTTP.Statuses["404"].Means != "poison" {
		t.Errorf("the second configuration has a change of the first: %+v", second)
	}
	for i, setting := range first.Describe() {
		if want := second.Describe()[i]; setting != want {
			t.Errorf("a caller changed the setting %v to %v", want, setting)
		}
	}
}

// An empty list is another choice than none, also in a clone.
func TestCloneKeepsEmptyLists(t *testing.T) {
	c := load(t, "retry: {deaths: []}\nindex: {labels: []}\n", nil, nil).Clone()
	if c.Retry.Deaths == nil || c.Index.Labels == nil || c.Index.NumericLabels != nil || c.Routes != nil {
		t.Errorf("deaths %#v, labels %#v, numeric labels %#v, routes %#v", c.Retry.Deaths, c.Index.Labels, c.Index.NumericLabels, c.Routes)
	}
}
