from mooring.cli.main import main

main()
