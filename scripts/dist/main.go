// Command dist builds the files of a release: an archive for each system; for Linux also a deb, an
// rpm and an image; the Helm chart, a list of the linked modules, checksums, a statement of origin and a signature. It runs in
// the root of a checkout (make dist). Two checkouts of one commit give the same bytes.
//
// With DIST_KEY, an Ed25519 private key in PEM, it signs the checksums.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
)

const everyTarget = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

func main() {
	log.SetFlags(0)
	log.SetPrefix("dist: ")
	out := flag.String("o", "dist/release", "folder of the release, which is deleted first")
	targets := flag.String("targets", everyTarget, "systems to build for")
	flag.Parse()
	if err := run(context.Background(), *out, strings.Split(*targets, ",")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out string, targets []string) error {
	sign, err := signer(os.Getenv("DIST_KEY"))
	if err != nil {
		return err
	}
	if err := os.Unsetenv("DIST_KEY"); err != nil { // the programs that it runs need no key
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	stage, err := os.MkdirTemp(filepath.Dir(out), "stage-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	r, err := build(ctx, stage, targets)
	if err != nil {
		return err
	}
	r.out, r.sign = out, sign
	if strings.Contains(r.version, "dirty") {
		log.Print("the checkout has changes that are not committed: this is no release")
	}
	for _, p := range r.programs {
		if p.os == "linux" {
			if err := r.packages(ctx, p); err != nil {
				return err
			}
		}
	}
	if err := r.packChart("deploy/helm/watership"); err != nil {
		return err
	}
	if err := r.write(); err != nil {
		return err
	}
	log.Printf("%s is in %s", r.version, out)
	return nil
}

// release has the files that are built from one commit.
type release struct {
	version  string // without the v of its tag
	commit   string
	time     int64 // of the commit; files have no other time
	out      string
	roots    []byte // certificate authorities for the image
	programs []program
	sign     func(file []byte) []byte // nil: unsigned
}

// A program is the binary for one system, in a folder with the other files of its archive.
type program struct {
	os, arch string
	folder   string
}

func (p program) binary() string {
	if p.os == "windows" {
		return "watership.exe"
	}
	return "watership"
}

// name returns the name of a file of the release.
func (r *release) name(p program, suffix string) string {
	return fmt.Sprintf("watership_%s_%s_%s%s", r.version, p.os, p.arch, suffix)
}

func (r *release) path(p program, suffix string) string {
	return filepath.Join(r.out, r.name(p, suffix))
}

// write makes every file but the deb, the rpm and the chart, which are there.
func (r *release) write() error {
	for _, p := range r.programs {
		if err := r.archive(p); err != nil {
			return err
		}
		if err := r.components(p); err != nil {
			return err
		}
		if p.os != "linux" {
			continue
		}
		if err := r.image(p); err != nil {
			return err
		}
	}
	return r.vouch()
}
