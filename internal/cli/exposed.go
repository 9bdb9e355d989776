package cli

import "github.com/watershipmq/watership/internal/doctor"

func (s system) logExposures() {
	for _, e := range doctor.Exposures(s.cfg) {
		s.logger.Warn("a secret is exposed: "+e.Detail, "remedy", e.Remedy)
	}
}
