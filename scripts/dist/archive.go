package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
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
	top := r.name(p, "")
	var files []file
	err := filepath.WalkDir(p.folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		within, err := filepath.Rel(p.folder, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		mode := fs.FileMode(0o644)
		if within == p.binary() {
			mode = 0o755
		}
		files = append(files, file{name: top + "/" + filepath.ToSlash(within), mode: mode, data: data})
		return err
	})
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
	data, err := tarOf(files, time.Unix(r.time, 0))
	if err != nil {
		return err
	}
	return os.WriteFile(r.path(p, ".tar.gz"), compressed(data), 0o644)
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
