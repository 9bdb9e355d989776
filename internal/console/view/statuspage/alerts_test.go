package statuspage

import (
	"slices"
	"testing"

	"github.com/watershipmq/watership/internal/operate/alerts/notice"
)

func TestAlertsByKind(t *testing.T) {
	var list []notice.Item
	add := func(n int, on, status string) {
		for range n {
			list = append(list, notice.Item{Alert: notice.Alert{On: on}, Status: status})
		}
	}
	add(3, notice.OnPoisoned, notice.Firing)
	add(6, notice.OnNewGroup, notice.Firing)
	add(1, notice.OnDoctor, notice.Firing)
	add(2, notice.OnNewGroup, notice.Pending)
	a := NewAlerts(list)
	want := []AlertKind{{"new group", 6}, {"threshold", 3}, {"finding", 1}}
	if a.Firing != 10 || a.Pending != 2 || len(a.List) != 12 || !slices.Equal(a.Kinds, want) {
		t.Errorf("%d firing, %d pending, %v", a.Firing, a.Pending, a.Kinds)
	}
}

// Each condition that a rule can have has a name.
func TestEachConditionHasAKind(t *testing.T) {
	for _, on := range []string{notice.OnNewGroup, notice.OnRegressed, notice.OnPoisoned, notice.OnSlow, notice.OnPaused, notice.OnLag, notice.OnGap, notice.OnDoctor} {
		if a := NewAlerts([]notice.Item{{Alert: notice.Alert{On: on}, Status: notice.Firing}}); len(a.Kinds) != 1 {
			t.Errorf("%s has no kind", on)
		}
	}
}
