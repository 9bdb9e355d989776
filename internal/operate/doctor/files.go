package doctor

// checkFiles reports each file of the configuration that serve could not use.
func (d *doctor) checkFiles() {
	err := d.Files()
	if err == nil {
		d.reportOK(FilesCheck, "serve can use the files that the configuration names")
		return
	}
	for _, mistake := range separate(err) {
		d.report(FileUnusable, Error, mistake.Error(), "correct the file or its setting: serve does not start without it")
	}
}

// separate returns the errors that errors.Join joined, once or several times.
func separate(err error) (all []error) {
	joined, is := err.(interface{ Unwrap() []error })
	if !is {
		return []error{err}
	}
	for _, one := range joined.Unwrap() {
		all = append(all, separate(one)...)
	}
	return all
}
