package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// user of the image, as in Dockerfile, without a name.
const user = 65532

// An object of JSON, whose members are written in the order of their names.
type object = map[string]any

// image writes an image without an operating system, as Dockerfile makes it, without an engine: an OCI
// layout in a tar, with the file by which older versions of docker load it.
func (r *release) image(p program) error {
	at := time.Unix(r.time, 0)
	created := at.UTC().Format(time.RFC3339)
	files := []file{
		{name: "data", mode: fs.ModeDir | 0o755, owner: user},
		{name: "etc", mode: fs.ModeDir | 0o755},
		{name: "etc/ssl", mode: fs.ModeDir | 0o755},
		{name: "etc/ssl/certs", mode: fs.ModeDir | 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: r.roots},
	}
	for _, name := range []string{"LICENSE", "NOTICE", p.binary()} {
		data, err := os.ReadFile(filepath.Join(p.folder, name))
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if name == p.binary() {
			mode = 0o755
		}
		files = append(files, file{name: name, mode: mode, data: data})
	}
	tree, err := tarOf(files, at)
	if err != nil {
		return err
	}
	name := "watership:" + strings.ReplaceAll(r.version, "+", "_")
	layout := layout{}
	layer := layout.add("application/vnd.oci.image.layer.v1.tar+gzip", compressed(tree))
	config := layout.addJSON("application/vnd.oci.image.config.v1+json", object{
		"architecture": p.arch, "os": p.os, "created": created,
		"config": object{
			"User": fmt.Sprintf("%d:%d", user, user), "Entrypoint": []string{"/watership"}, "Cmd": []string{"serve"},
			"ExposedPorts": object{"8181/tcp": object{}}, "WorkingDir": "/",
			"Labels": object{
				"org.opencontainers.image.title": "watership", "org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit,
				"org.opencontainers.image.source": repository, "org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
		"rootfs":  object{"type": "layers", "diff_ids": []string{digest(tree)}},
		"history": []object{{"created": created, "created_by": "make dist"}},
	})
	manifest := layout.addJSON("application/vnd.oci.image.manifest.v1+json", object{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []object{layer},
	})
	manifest["platform"] = object{"os": p.os, "architecture": p.arch}
	manifest["annotations"] = object{"org.opencontainers.image.ref.name": strings.TrimPrefix(name, "watership:"), "io.containerd.image.name": "docker.io/library/" + name}
	layout.file("index.json", encode(object{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []object{manifest}}))
	layout.file("oci-layout", encode(object{"imageLayoutVersion": "1.0.0"}))
	layout.file("manifest.json", encode([]object{{"Config": blob(config), "RepoTags": []string{name}, "Layers": []string{blob(layer)}}}))
	data, err := tarOf(layout.files, at)
	if err != nil {
		return err
	}
	return os.WriteFile(r.path(p, ".oci.tar"), data, 0o644)
}

// A layout collects the files of an OCI layout.
type layout struct {
	files []file
}

func (l *layout) file(name string, data []byte) {
	l.files = append(l.files, file{name: name, mode: 0o644, data: data})
}

// add adds a blob, and returns its descriptor.
func (l *layout) add(mediaType string, data []byte) object {
	descriptor := object{"mediaType": mediaType, "digest": digest(data), "size": len(data)}
	l.file(blob(descriptor), data)
	return descriptor
}

func (l *layout) addJSON(mediaType string, v any) object {
	return l.add(mediaType, encode(v))
}

// blob returns the path of the blob with a descriptor.
func blob(descriptor object) string {
	return "blobs/" + strings.ReplaceAll(descriptor["digest"].(string), ":", "/")
}

func digest(data []byte) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data))
}

// encode returns JSON. The values are our own, and JSON has them all.
func encode(v any) []byte {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err)
	}
	return append(data, '\n')
}
