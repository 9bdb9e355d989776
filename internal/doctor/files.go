package doctor

// checkFiles reports each file of the configuration that serve could not use.
func (d *doctor) checkFiles() {
	err := d.Files()
	if err == nil {
		d.reportOK("files", "serve can use the files that the configuration names")
		return
	}
	mistakes := []error{err}
	if joined, is := err.(interface{ Unwrap() []error }); is {
		mistakes = joined.Unwrap()
	}
	for _, mistake := range mistakes {
		d.report("files", Error, mistake.Error(), "correct the file or its setting: serve does not start without it")
	}
}
