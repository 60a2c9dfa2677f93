package run

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/redquorum/redquorum/internal/owner"
)

// maxCommand bounds what an owner tells of the command, in bytes.
const maxCommand = 64

// processOwner is the owner of a run without --owner: the process, and what it runs.
//
//	deploy@a:4711 redlock run php cron.php
func processOwner(argv []string) string {
	command := " run " + shownCommand(argv)
	process := owner.Process()
	return process[:min(len(process), owner.Most-len(command)-len(replacing("")))] + command
}

// shownCommand names a command for everybody who can read the masters: the program, and the first
// argument if that is a file, such as the script of an interpreter. Other arguments are left out,
// because some are secret, and nobody expects to publish them with a lock.
func shownCommand(argv []string) string {
	words := []string{filepath.Base(argv[0])}
	if len(argv) > 1 && !strings.HasPrefix(argv[1], "-") {
		if info, err := os.Stat(argv[1]); err == nil && info.Mode().IsRegular() {
			words = append(words, filepath.Base(argv[1]))
		}
	}
	text := strings.Join(words, " ")
	return strings.ToValidUTF8(text[:min(len(text), maxCommand)], "")
}
