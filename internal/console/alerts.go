package console

import (
	"crypto/rand"
	"net/http"

	"github.com/watershipmq/watership/internal/alerts"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/problem"
)

// alertsPage is the data of the page of alerts.
type alertsPage struct {
	Wait    string
	Alerts  *frame.Part[alerts.View]
	Key     string // of the next test
	Answers []alerts.Answer
	Refused *problem.Problem // of a test
}

// showAlerts shows the alerts that fire, their rules and receivers.
func (c *Console) showAlerts(r *http.Request) (frame.Response, error) {
	return c.alertsPage(r, alertsPage{}), nil
}

// testAlerts sends a test to a receiver, or to all, and shows the answers.
func (c *Console) testAlerts(r *http.Request) (frame.Response, error) {
	var tested alerts.TestAnswers
	err := c.client.Post(r.Context(), "/alerts/test", r.PostForm.Get("key"), map[string]string{"receiver": r.PostForm.Get("receiver")}, &tested)
	if err != nil {
		return c.alertsPage(r, alertsPage{Refused: frame.ProblemOf(err)}), nil
	}
	return c.alertsPage(r, alertsPage{Answers: tested.Answers}), nil
}

func (c *Console) alertsPage(r *http.Request, data alertsPage) frame.Page {
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
