// Command site makes a site of the documentation: each page for browsers and as Markdown, a search that
// needs no server, and llms.txt. It runs in the root of a checkout (make site) and needs no network. Links
// that lead nowhere are errors.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("site: ")
	out := flag.String("o", "dist/site", "folder of the site, which is deleted first")
	flag.Parse()
	if err := write(*out); err != nil {
		log.Fatal(err)
	}
	log.Printf("open %s in a browser, or copy the folder to any web server", filepath.Join(*out, "index.html"))
}

func write(out string) error {
	files, err := build(os.DirFS("."))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
