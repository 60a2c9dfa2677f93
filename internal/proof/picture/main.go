// Command picture draws the pictures of docs/images, each in light and dark: a round of votes in
// time (round) and what a failover does to a lock (failover).
//
//	go run ./internal/proof/picture
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
)

func main() {
	if err := write("docs/images"); err != nil {
		log.Fatal(err)
	}
}

// pictures are how to draw each.
var pictures = map[string]func(palette) string{"round": drawRound, "failover": drawFailover}

// write draws the pictures into a folder.
func write(folder string) error {
	for picture, draw := range pictures {
		for theme, colors := range themes {
			path := filepath.Join(folder, fmt.Sprintf("%s-%s.svg", picture, theme))
			if err := os.WriteFile(path, []byte(draw(colors)), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
