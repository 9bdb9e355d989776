package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"debug/buildinfo"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// build compiles the program for each target into a folder of stage, with the files that go with it. The
// version, the commit and its time are those that the Go toolchain recorded in the program.
func build(ctx context.Context, stage string, targets []string) (*release, error) {
	r := &release{}
	for _, target := range targets {
		system, arch, _ := strings.Cut(target, "/")
		p := program{os: system, arch: arch, folder: filepath.Join(stage, system+"_"+arch)}
		log.Printf("compiling for %s", target)
		if err := compile(ctx, p); err != nil {
			return nil, err
		}
		r.programs = append(r.programs, p)
	}
	if err := r.identify(); err != nil {
		return nil, err
	}
	here := program{os: runtime.GOOS, arch: runtime.GOARCH, folder: filepath.Join(stage, "here")}
	if err := compile(ctx, here); err != nil {
		return nil, err
	}
	for _, p := range r.programs {
		if err := accompany(ctx, filepath.Join(here.folder, here.binary()), p.folder); err != nil {
			return nil, err
		}
	}
	var err error
	r.roots, err = authorities(ctx)
	return r, err
}

// authorities returns the certificate authorities that Mozilla trusts. The version of a module decides which,
// and not the machine that builds.
func authorities(ctx context.Context) ([]byte, error) {
	const path = "golang.org/x/crypto/x509roots/fallback"
	text, err := output(exec.CommandContext(ctx, "go", "-C", "scripts/dist/tools", "mod", "download", "-json", path))
	if err != nil {
		return nil, err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(text, &module); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	der, err := os.ReadFile(filepath.Join(module.Dir, "bundle", "bundle.der"))
	if err != nil {
		return nil, err
	}
	certificates, err := x509.ParseCertificates(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var b bytes.Buffer
	for _, c := range certificates {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // a Buffer takes everything
	}
	return b.Bytes(), nil
}

func compile(ctx context.Context, p program) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", filepath.Join(p.folder, p.binary()), "./cmd/watership")
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0")
	_, err := output(cmd)
	return err
}

// identify reads the version, the commit and its time from a program.
func (r *release) identify() error {
	p := r.programs[0]
	info, err := buildinfo.ReadFile(filepath.Join(p.folder, p.binary()))
	if err != nil {
		return err
	}
	r.version = strings.TrimPrefix(info.Main.Version, "v")
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			r.commit = setting.Value
		}
	}
	if r.commit == "" {
		return fmt.Errorf("%s does not know its commit: run this in a clone, which git worktree does not make", p.folder)
	}
	text, err := output(exec.Command("git", "show", "--no-patch", "--format=%ct", r.commit))
	if err != nil {
		return err
	}
	r.time, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return err
}

// accompany writes the texts of a release next to a program: copies, manual pages and completions.
func accompany(ctx context.Context, watership, folder string) error {
	for _, file := range []string{"README.md", "LICENSE", "NOTICE", "docs/watership.example.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(file)), text, 0o644); err != nil {
			return err
		}
	}
	man, completions := filepath.Join(folder, "man"), filepath.Join(folder, "completions")
	for _, dir := range []string{man, completions} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for shell, name := range map[string]string{"bash": "watership.bash", "zsh": "_watership", "fish": "watership.fish", "powershell": "watership.ps1"} {
		script, err := output(exec.CommandContext(ctx, watership, "completion", shell))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(completions, name), script, 0o644); err != nil {
			return err
		}
	}
	if _, err := output(exec.CommandContext(ctx, watership, "man", man)); err != nil {
		return err
	}
	return compressPages(man)
}

func compressPages(folder string) error {
	pages, err := filepath.Glob(filepath.Join(folder, "*.1"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		if err := os.WriteFile(page+".gz", compressed(text), 0o644); err != nil {
			return err
		}
		if err := os.Remove(page); err != nil {
			return err
		}
	}
	return nil
}

// compressed returns a gzip file without a name or a time.
func compressed(data []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	_, _ = w.Write(data)                                  // a Buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// packages makes the deb and the rpm.
func (r *release) packages(ctx context.Context, p program) error {
	nfpm, err := output(exec.CommandContext(ctx, "go", "-C", "scripts/dist/tools", "tool", "-n", "nfpm"))
	if err != nil {
		return err
	}
	for _, packager := range []string{"deb", "rpm"} {
		cmd := exec.CommandContext(ctx, strings.TrimSpace(string(nfpm)), "package", "--config", "deploy/packages/nfpm.yaml", "--packager", packager, "--target", r.path(p, "."+packager))
		cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.time, 10), "VERSION="+r.version, "ARCH="+p.arch, "STAGE="+p.folder)
		if _, err := output(cmd); err != nil {
			return err
		}
	}
	return nil
}

// output runs a command, and returns its output. An error has the text of standard error.
func output(cmd *exec.Cmd) ([]byte, error) {
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, out, complaint.String())
	}
	return out, nil
}
