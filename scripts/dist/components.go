package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

// components writes a CycloneDX bill of materials: the modules that are linked into a program, by its build
// info, with the licenses of NOTICE.
func (r *release) components(p program) error {
	info, err := buildinfo.ReadFile(filepath.Join(p.folder, p.binary()))
	if err != nil {
		return err
	}
	notice, err := os.ReadFile(filepath.Join(p.folder, "NOTICE"))
	if err != nil {
		return err
	}
	licenses := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^(\S+ v\S+) \((.+)\)$`).FindAllStringSubmatch(string(notice), -1) {
		licenses[line[1]] = line[2]
	}
	program := component("application", "watership", "v"+r.version, "Apache-2.0")
	program["purl"] = "pkg:golang/" + info.Main.Path + "@v" + r.version
	standard := component("library", "std", info.GoVersion, "BSD-3-Clause")
	standard["purl"] = "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")
	libraries := []object{standard}
	for _, module := range info.Deps {
		module = cmp.Or(module.Replace, module)
		license := licenses[module.Path+" "+module.Version]
		if license == "" {
			return fmt.Errorf("NOTICE does not name %s %s", module.Path, module.Version)
		}
		libraries = append(libraries, library(module, license))
	}
	uses := make([]any, len(libraries))
	for n, l := range libraries {
		uses[n] = l["bom-ref"]
	}
	return os.WriteFile(r.path(p, ".cdx.json"), encode(object{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata":     object{"component": program},
		"components":   libraries,
		"dependencies": []object{{"ref": program["bom-ref"], "dependsOn": uses}},
	}), 0o644)
}

func component(kind, name, version, licenses string) object {
	var list []object
	for id := range strings.SplitSeq(licenses, ", ") {
		list = append(list, object{"license": object{"id": id}})
	}
	return object{"type": kind, "bom-ref": name + "@" + version, "name": name, "version": version, "licenses": list}
}

func library(module *debug.Module, licenses string) object {
	c := component("library", module.Path, module.Version, licenses)
	c["purl"] = "pkg:golang/" + module.Path + "@" + module.Version
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(module.Sum, "h1:")); err == nil && len(sum) > 0 {
		c["hashes"] = []object{{"alg": "SHA-256", "content": fmt.Sprintf("%x", sum)}}
	}
	return c
}
