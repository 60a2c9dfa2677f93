// Package api keeps a snapshot of what the module exports, so that a break of the API is seen
// before users see it.
package api

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// private are directories with nothing for users: commands, benchmarks, and what Go hides anyway.
var private = []string{"bench", "cmd", "internal", "testdata"}

// packages returns the directories of the packages below root that users can import, relative to
// root. Modules below root are not part of it.
func packages(root string) (dirs []string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if path != root && (slices.Contains(private, entry.Name()) || strings.HasPrefix(entry.Name(), ".") || isModule(path)) {
			return filepath.SkipDir
		}
		if _, err := build.ImportDir(path, 0); err == nil {
			dir, err := filepath.Rel(root, path)
			dirs = append(dirs, filepath.ToSlash(dir))
			return err
		}
		return nil
	})
	return dirs, err
}

func isModule(dir string) bool {
	found, err := filepath.Glob(filepath.Join(dir, "go.mod"))
	return err == nil && len(found) > 0
}

// exported returns the exported declarations of a package as on linux/amd64, sorted, without
// comments, bodies and unexported parts.
func exported(dir string) ([]string, error) {
	context := build.Default
	context.GOOS, context.GOARCH, context.CgoEnabled = "linux", "amd64", false
	found, err := context.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	var all []string
	for _, name := range found.GoFiles {
		file, err := parser.ParseFile(files, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.FileExports(file)
		for _, decl := range file.Decls {
			texts, err := print(files, decl)
			if err != nil {
				return nil, err
			}
			all = append(all, texts...)
		}
	}
	slices.Sort(all)
	return all, nil
}

// print returns a declaration as text, each constant, variable and type by itself.
func print(files *token.FileSet, decl ast.Decl) (texts []string, err error) {
	one := func(node any) error {
		var text bytes.Buffer
		err := (&printer.Config{Mode: printer.TabIndent, Tabwidth: 4}).Fprint(&text, files, node)
		texts = append(texts, text.String())
		return err
	}
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil && !ast.IsExported(receiver(d.Recv.List[0].Type)) {
			return nil, nil
		}
		d.Body = nil
		return texts, one(d)
	case *ast.GenDecl:
		if d.Tok == token.IMPORT {
			return nil, nil
		}
		for _, spec := range d.Specs {
			if value, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR && value.Type == nil {
				value.Values = nil // an error, or what the package makes
			}
			if err := one(&ast.GenDecl{Tok: d.Tok, Specs: []ast.Spec{spec}}); err != nil {
				return nil, err
			}
		}
	}
	return texts, nil
}

// receiver returns the name of the type of a receiver.
func receiver(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// Snapshot returns what the module at root exports.
func Snapshot(root string) (string, error) {
	dirs, err := packages(root)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, dir := range dirs {
		all, err := exported(filepath.Join(root, dir))
		if err != nil {
			return "", err
		}
		if len(all) == 0 {
			continue
		}
		fmt.Fprintf(&text, "package %s\n\n%s\n\n", dir, strings.Join(all, "\n"))
	}
	return text.String(), nil
}
