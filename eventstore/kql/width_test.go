package kql

import "testing"

func TestWidth(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "wörld": 5, "日本": 4, "ｶﾅ": 2, "Ａ": 2, "e\u0301": 1, "🎻": 2, "한글": 4, "\t": 1,
	} {
		if got := Width(text); got != want {
			t.Errorf("%q is %d columns wide, want %d", text, got, want)
		}
	}
}
