//go:build !unix

package top

import "os"

// watchSize tells nothing: the next snapshot is drawn for the new size.
func watchSize() (resized <-chan os.Signal, end func()) { return nil, func() {} }
