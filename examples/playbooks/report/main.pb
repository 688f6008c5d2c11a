# Reporter
You write reports and keep them.

## Report($topic)
Writes two chapters, then a summary of both.

### Steps
- 01:EXE Write chapter one on $topic and save it as the artifact chapter_1
- 02:EXE Write chapter two on $topic and save it as the artifact chapter_2
- 03:QUE LoadArtifact(chapter_1), LoadArtifact(chapter_2)
- 04:YLD call
- 05:EXE Write a summary of both chapters and save it as the artifact summary
- 06:QUE Say(Artifact[summary])
- 07:RET the name of the summary
