package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A file of an archive. Its mode decides whether it is a folder.
type file struct {
	name  string
	mode  fs.FileMode
	owner int
	data  []byte
}

// archive packs the folder of a program: a zip for Windows, a compressed tar for all others.
func (r *release) archive(p program) error {
	files, err := filesOf(p.folder, r.name(p, ""), p.binary())
	if err != nil {
		return err
	}
	if p.os == "windows" {
		data, err := zipOf(files, time.Unix(r.time, 0))
		if err != nil {
			return err
		}
		return os.WriteFile(r.path(p, ".zip"), data, 0o644)
	}
	return r.compressedTar(r.path(p, ".tar.gz"), files)
}

// packChart packs the Helm chart in a folder as a chart of this version.
func (r *release) packChart(folder string) error {
	files, err := filesOf(folder, "watership", "")
	if err != nil {
		return err
	}
	version := regexp.MustCompile(`(?m)^(version|appVersion): \S+`)
	for i, f := range files {
		if f.name == "watership/Chart.yaml" {
			files[i].data = version.ReplaceAll(f.data, []byte("$1: "+r.version))
		}
	}
	return r.compressedTar(filepath.Join(r.out, "watership-"+r.version+".tgz"), files)
}

func (r *release) compressedTar(path string, files []file) error {
	data, err := tarOf(files, time.Unix(r.time, 0))
	if err != nil {
		return err
	}
	return os.WriteFile(path, compressed(data), 0o644)
}

// filesOf returns the files of a folder, in another folder top, of which one may be executable.
func filesOf(folder, top, executable string) (files []file, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		within, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		mode := fs.FileMode(0o644)
		if within == executable {
			mode = 0o755
		}
		files = append(files, file{name: top + "/" + filepath.ToSlash(within), mode: mode, data: data})
		return err
	})
	return files, err
}

func tarOf(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: int64(f.mode.Perm()), Uid: f.owner, Gid: f.owner, Size: int64(len(f.data)), ModTime: at, Format: tar.FormatUSTAR, Typeflag: tar.TypeReg}
		if f.mode.IsDir() {
			header.Typeflag, header.Name = tar.TypeDir, strings.TrimSuffix(f.name, "/")+"/"
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func zipOf(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at.UTC()}
		header.SetMode(f.mode)
		entry, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
