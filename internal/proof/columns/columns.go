package main

import (
	"bytes"
	"go/scanner"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	limit    = 100
	tabWidth = 4
)

// wide is a line that is too wide.
type wide struct{ line, width int }

// tooWide returns the lines of a file whose prose passes the limit. The name of the file, or its
// first line, tells what prose is. A file of any other kind has none.
func tooWide(path string, text []byte) []wide {
	name := filepath.Base(path)
	switch filepath.Ext(name) {
	case ".go":
		return inGo(text)
	case ".md":
		return inMarkdown(text)
	case ".lua":
		return inComments(text, "--")
	case ".mod":
		return inComments(text, "//")
	case ".yml", ".yaml", ".sh", ".gitignore":
		return inComments(text, "#")
	}
	if name == "Makefile" || bytes.HasPrefix(text, []byte("#!")) {
		return inComments(text, "#")
	}
	return nil
}

// directive is a comment for a tool, which has to stay in one line.
var directive = regexp.MustCompile(`^//[a-z]+:\S`)

// inGo checks each line of each comment, from the start of the line up to where the comment ends.
func inGo(text []byte) (found []wide) {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	lines := strings.Split(string(text), "\n")
	for {
		position, kind, comment := s.Scan()
		if kind == token.EOF {
			return found
		}
		if kind != token.COMMENT || directive.MatchString(comment) {
			continue
		}
		at := file.Position(position)
		before := lines[at.Line-1][:at.Column-1]
		for i, line := range strings.Split(comment, "\n") {
			if !strings.HasPrefix(line, "//\t") { // code in a doc comment
				found = judge(found, at.Line+i, before+line, line)
			}
			before = ""
		}
	}
}

// inMarkdown checks all lines but those of tables and of fenced code.
func inMarkdown(text []byte) (found []wide) {
	fence := ""
	for i, line := range strings.Split(string(text), "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:3]
		case !strings.HasPrefix(trimmed, "|"):
			found = judge(found, i+1, line, line)
		}
	}
	return found
}

// inComments checks the comments of a language in which a mark outside of quotes begins one, at the
// start of the line or behind a space.
func inComments(text []byte, mark string) (found []wide) {
	for i, line := range strings.Split(string(text), "\n") {
		if at := comment(line, mark); at >= 0 {
			found = judge(found, i+1, line, line[at:])
		}
	}
	return found
}

// comment returns where a comment begins, or -1.
func comment(line, mark string) int {
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"' || c == '\'':
			// An apostrophe has no other half.
			if end := strings.IndexByte(line[i+1:], c); end >= 0 {
				i += end + 1
			}
		case strings.HasPrefix(line[i:], mark) && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t'):
			return i
		}
	}
	return -1
}

// judge adds a line that is too wide. The prose is its end.
func judge(found []wide, number int, line, prose string) []wide {
	width := columns(strings.TrimRight(line, " \r"))
	if width <= limit || unbreakable(prose) {
		return found
	}
	return append(found, wide{number, width})
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + strings.Count(line, "\t")*(tabWidth-1)
}

// unbreakable tells whether prose is a link and at most one word before it, such as "[name]:" or
// "-", whatever mark it begins with.
func unbreakable(prose string) bool {
	words := strings.Fields(prose)
	if len(words) > 0 && strings.Trim(words[0], "#/->*") == "" {
		words = words[1:]
	}
	if len(words) == 0 || len(words) > 2 {
		return false
	}
	last := words[len(words)-1]
	return strings.Contains(last, "://") || strings.Contains(last, "](")
}
