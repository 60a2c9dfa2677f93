package redlock

import (
	_ "embed" // the scripts

	"github.com/redquorum/redquorum/pool"
)

//go:embed scripts/release.lua
var releaseSource string

//go:embed scripts/extend.lua
var extendSource string

var (
	// Late: a value is used once, so deleting it late or twice can only do what should have been done.
	releaseScript = pool.NewLateScript(releaseSource)

	// In order: behind the release of its lock it would bring the key back.
	extendScript = pool.NewScript(extendSource)
)
