package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// testRelease is a release of a small program. scripts/packages has the real one.
func testRelease(t *testing.T, sign func([]byte) []byte) *release {
	t.Helper()
	stage := t.TempDir()
	r := &release{version: "0.1.0", commit: strings.Repeat("ab", 20), time: 1_700_000_000, out: t.TempDir(), roots: []byte("roots\n"), sign: sign}
	binary := filepath.Join(stage, "program")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./testdata/program").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, system := range []string{"linux", "windows"} {
		p := program{os: system, arch: "amd64", folder: filepath.Join(stage, system)}
		if err := os.Mkdir(p.folder, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, from := range map[string]string{p.binary(): binary, "LICENSE": "../../LICENSE", "NOTICE": "../../NOTICE"} {
			data, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(p.folder, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.programs = append(r.programs, p)
	}
	if err := errors.Join(r.packChart("../../deploy/helm/watership"), r.write()); err != nil {
		t.Fatal(err)
	}
	return r
}

func contents(t *testing.T, r *release, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.out, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Two releases of a commit are the same, and a key signs their checksums.
func TestReleasesRepeat(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	sign, err := signer(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	if err != nil {
		t.Fatal(err)
	}
	a, b := testRelease(t, sign), testRelease(t, nil)
	sums := contents(t, a, "SHA256SUMS")
	if !bytes.Equal(sums, contents(t, b, "SHA256SUMS")) {
		t.Errorf("two releases differ:\n%s\n%s", sums, contents(t, b, "SHA256SUMS"))
	}
	if !ed25519.Verify(public, sums, contents(t, a, "SHA256SUMS.sig")) {
		t.Error("the signature is wrong")
	}
	if _, err := os.Stat(filepath.Join(b.out, "SHA256SUMS.sig")); err == nil {
		t.Error("there is a signature without a key")
	}
	for _, name := range []string{"watership_0.1.0_linux_amd64.tar.gz", "watership_0.1.0_windows_amd64.zip", "watership_0.1.0_linux_amd64.oci.tar", "watership_0.1.0_linux_amd64.cdx.json", "watership-0.1.0.tgz", "provenance.intoto.json"} {
		if want := strings.TrimPrefix(digest(contents(t, a, name)), "sha256:") + "  " + name + "\n"; !strings.Contains(string(sums), want) {
			t.Errorf("SHA256SUMS has no %q", want)
		}
	}
	for key, want := range map[string]string{"nonsense": "no private key in PEM", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n": "DIST_KEY: "} {
		if _, err := signer(key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func entries(t *testing.T, data []byte) (names map[string]*tar.Header, files map[string][]byte) {
	t.Helper()
	names, files = map[string]*tar.Header{}, map[string][]byte{}
	for reader := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return names, files
		}
		if err != nil {
			t.Fatal(err)
		}
		names[header.Name] = header
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}

func uncompressed(t *testing.T, data []byte) []byte {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	data, err = io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode[T any](t *testing.T, data []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// An archive has the program, which may be executed, in one folder.
func TestArchives(t *testing.T) {
	t.Parallel()
	r := testRelease(t, nil)
	names, _ := entries(t, uncompressed(t, contents(t, r, "watership_0.1.0_linux_amd64.tar.gz")))
	binary := names["watership_0.1.0_linux_amd64/watership"]
	if binary == nil || binary.Mode != 0o755 || binary.Uid != 0 || binary.ModTime.Unix() != r.time || names["watership_0.1.0_linux_amd64/NOTICE"] == nil {
		t.Errorf("%+v", names)
	}
	path := filepath.Join(r.out, "watership_0.1.0_windows_amd64.zip")
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if _, err := archive.Open("watership_0.1.0_windows_amd64/watership.exe"); err != nil {
		t.Error(err)
	}
}

// The chart has the version of the release, and so its image.
func TestChart(t *testing.T) {
	t.Parallel()
	r := &release{version: "0.2.0-rc.1", out: t.TempDir()}
	if err := r.packChart("../../deploy/helm/watership"); err != nil {
		t.Fatal(err)
	}
	_, files := entries(t, uncompressed(t, contents(t, r, "watership-0.2.0-rc.1.tgz")))
	chart := string(files["watership/Chart.yaml"])
	if !strings.Contains(chart, "\nversion: 0.2.0-rc.1 ") || !strings.Contains(chart, "\nappVersion: 0.2.0-rc.1\n") || files["watership/templates/deployment.yaml"] == nil {
		t.Errorf("%s", chart)
	}
}

// descriptor is a part of an OCI layout.
type descriptor struct {
	MediaType string
	Digest    string
	Size      int
}

// Each digest of the image leads to a blob with it, from the index to the files; older versions of docker find
// the same blobs.
func TestImage(t *testing.T) {
	t.Parallel()
	r := testRelease(t, nil)
	_, files := entries(t, contents(t, r, "watership_0.1.0_linux_amd64.oci.tar"))
	follow := func(d descriptor) []byte {
		data := files["blobs/"+strings.ReplaceAll(d.Digest, ":", "/")]
		if digest(data) != d.Digest || len(data) != d.Size {
			t.Fatalf("%+v has %d bytes with %s", d, len(data), digest(data))
		}
		return data
	}
	index := decode[struct{ Manifests []descriptor }](t, files["index.json"])
	manifest := decode[struct {
		Config descriptor
		Layers []descriptor
	}](t, follow(index.Manifests[0]))
	config := decode[struct {
		Architecture, OS string
		Config           struct {
			User            string
			Entrypoint, Cmd []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}](t, follow(manifest.Config))
	tree := uncompressed(t, follow(manifest.Layers[0]))
	if config.Architecture != "amd64" || config.OS != "linux" || config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/watership" || config.RootFS.DiffIDs[0] != digest(tree) {
		t.Errorf("%+v", config)
	}
	names, contents := entries(t, tree)
	if names["watership"].Mode != 0o755 || names["data/"].Uid != user || string(contents["etc/ssl/certs/ca-certificates.crt"]) != "roots\n" {
		t.Errorf("%+v", names)
	}
	former := decode[[]struct {
		Config           string
		RepoTags, Layers []string
	}](t, files["manifest.json"])[0]
	if former.RepoTags[0] != "watership:0.1.0" || files[former.Config] == nil || files[former.Layers[0]] == nil {
		t.Errorf("%+v", former)
	}
}

// The components are the modules of the program with their licenses, and the statement of origin names each
// file and the commit.
func TestComponentsAndProvenance(t *testing.T) {
	t.Parallel()
	r := testRelease(t, nil)
	bill := string(contents(t, r, "watership_0.1.0_linux_amd64.cdx.json"))
	for _, want := range []string{`"purl": "pkg:golang/std@`, `"name": "golang.org/x/sync"`, `"content": "`, `"bomFormat": "CycloneDX"`} {
		if !strings.Contains(bill, want) {
			t.Errorf("there is no %s in\n%s", want, bill)
		}
	}
	statement := decode[struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct{ Digest map[string]string }
			}
		}
	}](t, contents(t, r, "provenance.intoto.json"))
	for _, s := range statement.Subject {
		if "sha256:"+s.Digest["sha256"] != digest(contents(t, r, s.Name)) {
			t.Errorf("%+v", s)
		}
	}
	if len(statement.Subject) != 6 || statement.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"] != r.commit {
		t.Errorf("%+v", statement)
	}
	p := r.programs[0]
	if err := os.WriteFile(filepath.Join(p.folder, "NOTICE"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.components(p); err == nil || !strings.Contains(err.Error(), "NOTICE does not name golang.org/x/sync") {
		t.Errorf("a module without a license: %v", err)
	}
}

// The bundle of the pinned module is what we take it for.
func TestAuthorities(t *testing.T) {
	t.Chdir("../..")
	roots, err := authorities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(roots, []byte("BEGIN CERTIFICATE")); n < 100 {
		t.Errorf("only %d certificates", n)
	}
}
