from mooring.cli.entry import main

main()
