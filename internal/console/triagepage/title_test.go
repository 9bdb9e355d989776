package triagepage

import "testing"

func TestTitlesOfErrors(t *testing.T) {
	for text, want := range map[string]errorTitle{
		"no stock of #": {Text: "no stock of #"},
		"http://#:# answered 409 Conflict: order precedes its customer #": {"409 Conflict: order precedes its customer #", "http://#:#", "409"},
		"https://erp/x answered nothing":                                  {"nothing", "https://erp/x", ""},
		"the clerk answered 409 times":                                    {Text: "the clerk answered 409 times"},
		"":                                                                {},
	} {
		if got := newErrorTitle(text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}
