package call

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A sampled span is an exemplar, whatever other flags it has.
func TestExemplarsAreOfSampledSpans(t *testing.T) {
	const span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	for flags, want := range map[string]bool{"00": false, "01": true, "02": false, "03": true} {
		m := NewMetrics(nil)
		m.ObserveHandled("q", time.Second, span+flags)
		var got dto.Metric
		if err := m.durations.WithLabelValues("q").(prometheus.Metric).Write(&got); err != nil {
			t.Fatal(err)
		}
		has := false
		for _, bucket := range got.GetHistogram().GetBucket() {
			has = has || bucket.GetExemplar() != nil
		}
		if has != want {
			t.Errorf("flags %s: an exemplar %v", flags, has)
		}
	}
}
