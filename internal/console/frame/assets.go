package frame

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
)

// assets serves styles and scripts below a path with a hash of all their contents, so
// that browsers keep them for ever and load the files of another version again.
type assets struct {
	prefix  string
	handler http.Handler
}

func readAssets(files fs.FS) (assets, error) {
	static, err := fs.Sub(files, "static")
	if err != nil {
		return assets{}, err
	}
	digest := sha256.New()
	err = fs.WalkDir(static, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(static, path)
		digest.Write([]byte(path))
		digest.Write(content)
		return err
	})
	prefix := "/static/" + hex.EncodeToString(digest.Sum(nil)[:6]) + "/"
	return assets{prefix, http.StripPrefix(prefix, http.FileServerFS(static))}, err
}

// Stylesheet returns the URL of the style of all pages, which needs no permission.
func (f *Frame) Stylesheet() string { return f.assets.prefix + "console.css" }

// ServeHTTP implements http.Handler.
func (a assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	a.handler.ServeHTTP(w, r)
}
