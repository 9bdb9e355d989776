package console

import (
	"context"
	"net/http"

	"github.com/watershipmq/watership/internal/api"
	"github.com/watershipmq/watership/internal/console/frame"
)

// doctorPage is the data of the page of doctor.
type doctorPage struct {
	Wait   string
	Doctor *frame.Part[diagnosis]
}

const freshFindings = 60 // seconds

// showDoctor shows all findings of doctor with their remedies.
func (c *Console) showDoctor(r *http.Request) (frame.Response, error) {
	maxAge := freshFindings
	if r.URL.Query().Has("again") {
		maxAge = 0
	}
	p := frame.NewParts(r)
	found := frame.Ask(p, func(ctx context.Context, to *diagnosis) error { return c.diagnose(ctx, maxAge, to) })
	p.Wait()
	made := frame.Page{
		Title: "Doctor", Section: "/doctor", Template: "doctor.html", Styles: overviewStyles(), Scripts: []string{"late.js"},
		Data: doctorPage{Wait: waitLink(r), Doctor: found},
	}
	if found.Problem != nil {
		made.Status = found.Problem.Status
	}
	return made, nil
}

// Checks are the findings by their checks, in order.
func (d diagnosis) Checks() []doctorCheck {
	var checks []doctorCheck
	at := map[string]int{}
	for _, f := range d.Findings {
		i, known := at[f.Check]
		if !known {
			i = len(checks)
			at[f.Check] = i
			checks = append(checks, doctorCheck{Name: f.Check})
		}
		checks[i].Findings = append(checks[i].Findings, f)
	}
	return checks
}

// doctorCheck has the findings of one check.
type doctorCheck struct {
	Name     string
	Findings []api.Finding
}
