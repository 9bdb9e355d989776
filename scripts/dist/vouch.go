package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const repository = "https://github.com/watershipmq/watership"

// vouch writes the statement of origin, then the checksums of all files, and signs these.
func (r *release) vouch() error {
	subjects, err := r.digests()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.out, "provenance.intoto.json"), encode(r.provenance(subjects)), 0o644); err != nil {
		return err
	}
	all, err := r.digests()
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, f := range all {
		fmt.Fprintf(&sums, "%s  %s\n", f.sha256, f.name)
	}
	path := filepath.Join(r.out, "SHA256SUMS")
	if err := os.WriteFile(path, []byte(sums.String()), 0o644); err != nil {
		return err
	}
	if r.sign == nil {
		log.Print("SHA256SUMS is not signed: DIST_KEY is not set")
		return nil
	}
	return os.WriteFile(path+".sig", r.sign([]byte(sums.String())), 0o644)
}

type subject struct {
	name, sha256 string
}

// digests lists the files of the release by name.
func (r *release) digests() ([]subject, error) {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return nil, err
	}
	subjects := make([]subject, 0, len(entries))
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, subject{name: e.Name(), sha256: strings.TrimPrefix(digest(data), "sha256:")})
	}
	return subjects, nil
}

// provenance is an in-toto statement: which files were built from which commit. DIST_BUILDER names who built.
func (r *release) provenance(subjects []subject) object {
	builder := os.Getenv("DIST_BUILDER")
	if builder == "" {
		builder = repository + "#make-dist"
	}
	files := make([]object, len(subjects))
	for n, s := range subjects {
		files[n] = object{"name": s.name, "digest": object{"sha256": s.sha256}}
	}
	return object{
		"_type": "https://in-toto.io/Statement/v1", "subject": files,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType":            repository + "/blob/main/scripts/dist",
				"externalParameters":   object{"command": "make dist", "version": r.version},
				"internalParameters":   object{"go": runtime.Version()},
				"resolvedDependencies": []object{{"uri": "git+" + repository, "digest": object{"gitCommit": r.commit}}},
			},
			"runDetails": object{"builder": object{"id": builder}},
		},
	}
}

// signer returns the function that signs with a private key in PEM; nil without a key.
func signer(key string) (func([]byte) []byte, error) {
	if key == "" {
		return nil, nil
	}
	block, _ := pem.Decode([]byte(key))
	if block == nil {
		return nil, errors.New("DIST_KEY has no private key in PEM (openssl genpkey -algorithm ed25519)")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("DIST_KEY: %w", err)
	}
	private, is := parsed.(ed25519.PrivateKey)
	if !is {
		return nil, errors.New("DIST_KEY is no Ed25519 key (openssl genpkey -algorithm ed25519)")
	}
	return func(file []byte) []byte { return ed25519.Sign(private, file) }, nil
}
