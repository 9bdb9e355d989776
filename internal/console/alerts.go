package console

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/alerts"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// alertsPage is the data of the page of alerts.
type alertsPage struct {
	Wait    string
	Alerts  *frame.Part[alerts.Alerts]
	Key     string // of the next test
	Answers []alerts.Answer
	Refused *problem.Problem // of a test
}

// showAlerts shows the alerts that fire, their rules and receivers, and the answers to a test
// that was sent before.
func (c systemPages) showAlerts(r *http.Request) (frame.Response, error) {
	data := alertsPage{}
	if done, _ := c.DoneBefore(r); done != nil {
		_ = json.Unmarshal([]byte(done.Get("answers")), &data.Answers) // testAlerts has signed it
	}
	return c.alertsPage(r, data), nil
}

// maxAnswer bounds the answers in an address.
const maxAnswer = 200 // characters

// testAlerts sends a test to a receiver, or to all. A redirect shows the answers, so that the
// page can be read again without another test.
func (c systemPages) testAlerts(r *http.Request) (frame.Response, error) {
	in := alerts.TestInput{IdempotencyKey: frame.KeyOf(r)}
	in.Body.Receiver = r.PostForm.Get("receiver")
	tested, err := alerts.TestAlerts.Call(r.Context(), c.api, in)
	if err != nil {
		return c.alertsPage(r, alertsPage{Refused: frame.ProblemOf(err)}), nil
	}
	short := slices.Clone(tested.Body.Answers) // a repeated request gets them, too
	for i, answer := range short {
		if text := []rune(answer.Answer); len(text) > maxAnswer {
			short[i].Answer = string(text[:maxAnswer]) + "…"
		}
	}
	answers, err := json.Marshal(short)
	return c.Done("/alerts", url.Values{"answers": {string(answers)}}), err
}

func (c systemPages) alertsPage(r *http.Request, data alertsPage) frame.Page {
	p := frame.NewParts(r)
	data.Wait, data.Key, data.Alerts = "/alerts?"+frame.WaitParameter+"=1", rand.Text(), frame.Ask(p, c.alerts)
	p.Wait()
	made := systemPage("Alerts", "/alerts", "alerts.html", data)
	if made.Refresh = overviewRefresh; data.Answers != nil {
		made.Refresh = 0
	}
	if data.Refused != nil {
		made.Status, made.Refresh = data.Refused.Status, 0
	}
	return made
}
