package bodyschema

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Load reads and compiles the JSON Schema in a file, with the files in its directory and
// beneath it to which it refers.
func Load(file string) (*Schema, error) { return load(file, map[string][]byte{}) }

// Parse compiles a JSON Schema, as Load does one in a file of the working directory.
func Parse(name string, content []byte) (*Schema, error) {
	return load(name, map[string][]byte{name: content})
}

// load compiles the JSON Schema in a file, unless it is known.
func load(file string, known map[string][]byte) (*Schema, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", file, err)
	}
	directory, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", file, withoutPath(err))
	}
	defer directory.Close()
	files := &loader{directory: directory, path: filepath.Dir(path), contents: known}
	compiled, err := compile(files, path)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %s", file, files.explain(err, fileURL(path)))
	}
	s := &Schema{
		name: filepath.Base(path), base: fileURL(files.path), digest: files.digest(),
		compile: func() (*jsonschema.Schema, error) {
			return compile(&loader{path: files.path, contents: files.contents}, path)
		},
		idle: make(chan *validator, maxIdle), large: make(chan struct{}, 1),
	}
	return s, checkCycles(compiled, file)
}

// maxIdle is the number of compiled forms of a schema that are kept for further checks.
const maxIdle = 16

func compile(files *loader, path string) (*jsonschema.Schema, error) {
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(files)
	return compiler.Compile(fileURL(path))
}

// checkCycles refuses a schema that refers to itself without an end, which fits nothing, and
// one whose parts take too many steps for a value without members. It is the only user of the
// compiled form.
func checkCycles(compiled *jsonschema.Schema, file string) error {
	v, most := newValidator(compiled), steps(smallCheck, 1)
	for _, body := range []string{"null", "true", "0", `""`, "[]", "{}"} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
		if err != nil {
			return err
		}
		result, err := v.validate(value, most)
		if err != nil {
			return fmt.Errorf("schema %s: to check a body of %s takes more than %d steps: expected fewer parts that refer to the same one", file, body, most)
		}
		var invalid *jsonschema.ValidationError
		if errors.As(result, &invalid) && hasCycle(invalid) {
			return fmt.Errorf("schema %s: its references lead back to where they begin: expected a value between them", file)
		}
	}
	return nil
}

func hasCycle(e *jsonschema.ValidationError) bool {
	_, cycle := e.ErrorKind.(*kind.RefCycle)
	return cycle || slices.ContainsFunc(e.Causes, hasCycle)
}

func fileURL(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

// loader reads the files of a schema, and knows those that it has read.
type loader struct {
	directory *os.Root // nil: it has read all
	path      string   // of directory
	contents  map[string][]byte
}

const (
	maxFiles = 100
	maxFile  = 4 << 20 // bytes
)

// Load reads the file of an absolute URL. It implements jsonschema.URLLoader.
func (l *loader) Load(from string) (any, error) {
	u, err := url.Parse(from)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "file" || u.Host != "" {
		return nil, errors.New("expected a file in the directory of the schema, as nothing is read from the network")
	}
	name, err := filepath.Rel(l.path, filepath.FromSlash(u.Path))
	if err != nil || !filepath.IsLocal(name) {
		return nil, errors.New("expected a file in the directory of the schema, or beneath it")
	}
	content, known := l.contents[name]
	if !known {
		if content, err = l.read(name); err != nil {
			return nil, err
		}
		l.contents[name] = content
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("expected JSON: %w", err)
	}
	return value, nil
}

func (l *loader) read(name string) ([]byte, error) {
	if len(l.contents) >= maxFiles {
		return nil, fmt.Errorf("expected at most %d files", maxFiles)
	}
	file, err := l.directory.Open(name)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, withoutPath(err)
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("expected at most %d MiB", maxFile>>20)
	}
	return content, nil
}

func (l *loader) digest() string {
	all := sha256.New()
	names := make([]string, 0, len(l.contents))
	for name := range l.contents {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		sum := sha256.Sum256(l.contents[name])
		fmt.Fprintf(all, "%q %x\n", name, sum)
	}
	return hex.EncodeToString(all.Sum(nil)[:12])
}

// explain returns the reason why the schema of a URL cannot be compiled, in one line.
func (l *loader) explain(err error, of string) string {
	base := fileURL(l.path) + "/"
	var invalid *jsonschema.SchemaValidationError
	var unread *jsonschema.LoadURLError
	var faults *jsonschema.ValidationError
	switch {
	case errors.As(err, &unread) && unread.URL == of: // its caller names it
		return unread.Err.Error()
	case errors.As(err, &unread):
		return fmt.Sprintf("%s: %v", strings.TrimPrefix(unread.URL, base), unread.Err)
	case errors.As(err, &invalid) && errors.As(invalid.Err, &faults):
		found := collect(faults, base)
		return (&Error{Schema: "JSON Schema", Faults: found.faults, More: found.more}).List()
	}
	return strings.ReplaceAll(strings.ReplaceAll(err.Error(), base, ""), "\n", " ")
}

// withoutPath returns an error without the name of the file, which its caller adds.
func withoutPath(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
