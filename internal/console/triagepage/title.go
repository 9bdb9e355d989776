package triagepage

import "strings"

// errorTitle is the text of an error in parts. The error of a route that calls a service by HTTP begins with the
// address of the service, which says less than its answer.
type errorTitle struct {
	Text    string
	Service string // "": the error has none
	Status  string // of the service's answer; "": unknown
}

func newErrorTitle(text string) errorTitle {
	service, answer, answered := strings.Cut(text, " answered ")
	if !answered || strings.Contains(service, " ") || !(strings.HasPrefix(service, "http://") || strings.HasPrefix(service, "https://")) {
		return errorTitle{Text: text}
	}
	title := errorTitle{Text: answer, Service: service}
	if status, _, _ := strings.Cut(answer, " "); len(status) == 3 && strings.Trim(status, "0123456789") == "" {
		title.Status = status
	}
	return title
}
